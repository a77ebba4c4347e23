import { z } from 'zod';
import { CodeBoxError } from '#contract';

/** The versions of the box server's API that this gateway works with. */
const [oldestApi, newestApi] = [1, 1];
const healthMs = 5000;

/** What a box server may lack: a gateway asks for these only where they are listed, and for all others of every box server. */
const abilities = {
  checkpoint: 'keep its files',
  packages: 'install packages',
  ports: 'be reached at its ports',
  search: 'search its files',
  stop: 'end all that runs in it',
  terminals: 'open terminals',
  watch: 'watch its files',
} as const;
export type Ability = keyof typeof abilities;

/** What a box server says of itself. One of the version before says neither its API nor its abilities, of which it has all. */
export const healthSchema = z.object({
  status: z.literal('ok'),
  instance: z.string(),
  api: z.int().default(1),
  abilities: z.array(z.string()).max(100).optional(),
});
export type Health = Pick<z.infer<typeof healthSchema>, 'api' | 'abilities'>;

/** A box server of another version, with which asking again is of no use: `unavailable` to callers. */
export class OtherApi extends CodeBoxError {
  constructor(api: number) {
    const own = oldestApi === newestApi ? `${newestApi}` : `${oldestApi} to ${newestApi}`;
    const mend = api > newestApi ? 'update this gateway' : 'build the image anew';
    super(
      'unavailable',
      `The image of the box brings a box server of API ${api}, and this gateway needs ${own}: ${mend}.`,
      {
        retryAfterSeconds: 60,
      },
    );
  }
}

/** Throws OtherApi for a version that this gateway does not work with. */
export const checkApi = ({ api }: Pick<Health, 'api'>): void => {
  if (api < oldestApi || api > newestApi) throw new OtherApi(api);
};

/** What one box server can do; it is asked once. `health` throws `unavailable` when it does not answer. */
export const createAbilities = (health: (signal: AbortSignal) => Promise<Health>) => {
  let known: Health | undefined;
  const ask = async (signal: AbortSignal): Promise<Health> => {
    known = await health(signal);
    return known;
  };

  /** Throws `conflict` for what the box server does not offer. */
  const need = async (ability: Ability): Promise<void> => {
    const { abilities: offered } = known ?? (await ask(AbortSignal.timeout(healthMs)));
    if (offered === undefined || offered.includes(ability)) return;
    throw new CodeBoxError(
      'conflict',
      `This box cannot ${abilities[ability]}: the box server of its image does not offer that.`,
    );
  };

  return {
    health: ask,
    need,
    /** The same call, made only where the box server offers it. */
    only:
      <A extends unknown[], R>(ability: Ability, call: (...asked: A) => Promise<R>) =>
      async (...asked: A): Promise<R> => {
        await need(ability);
        return await call(...asked);
      },
  };
};
