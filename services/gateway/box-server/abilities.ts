import { z } from 'zod';
import { CodeBoxError, languageNameSchema } from '#contract';

/** The versions of the box server's API that this gateway supports. */
const [oldestApi, newestApi] = [1, 1];
const healthMs = 5000;

/** Optional abilities of box servers: a gateway uses them only where they are listed. Every box server has all others. */
const abilities = {
  changes: 'list the changes of its files',
  checkpoint: 'save its files',
  contents: 'list what its image contains',
  folder: 'run code in a folder of its own',
  jupyter: 'serve Jupyter clients',
  keys: 'take input for terminals outside of their connections',
  network: 'take another network while it is in use',
  notebooks: 'run notebooks',
  output: 'keep more of the output of a run',
  packages: 'install packages',
  ports: 'be reached at its ports',
  python: 'run kernels of virtual environments',
  seal: 'stop reporting what runs in it',
  search: 'search its files',
  stop: 'stop everything that runs in it',
  terminals: 'open terminals',
  unattended: 'refuse input() of code whose input nobody answers',
  variables: 'keep its variables for a template',
  watch: 'watch its files',
} as const;
export type Ability = keyof typeof abilities;

/** The health response of a box server. The previous version has all abilities, but reports neither them nor an API version. */
export const healthSchema = z.object({
  status: z.literal('ok'),
  instance: z.string(),
  api: z.int().default(1),
  abilities: z.array(z.string()).max(100).optional(),
  languages: z.array(languageNameSchema).min(1).max(100),
});
export type Health = Pick<z.infer<typeof healthSchema>, 'api' | 'abilities' | 'languages'>;

/** The error for a box server with another API version, which no retry can resolve: `unavailable` to callers. */
export class OtherApi extends CodeBoxError {
  constructor(api: number) {
    const own = oldestApi === newestApi ? `${newestApi}` : `${oldestApi} to ${newestApi}`;
    const remedy = api > newestApi ? 'update this gateway' : 'rebuild the image';
    super(
      'unavailable',
      `The image of the box has a box server with API version ${api}, but this gateway needs ${own}: ${remedy}.`,
      {
        retryAfterSeconds: 60,
      },
    );
  }
}

/** Throws OtherApi for a version that this gateway does not support. */
export const checkApi = ({ api }: Pick<Health, 'api'>): void => {
  if (api < oldestApi || api > newestApi) throw new OtherApi(api);
};

/** The abilities and languages of one box server, read once. Calls throw `unavailable` when the box server does not respond. */
export const createAbilities = (health: (signal: AbortSignal) => Promise<Health>) => {
  let known: Health | undefined;
  const read = async (signal: AbortSignal): Promise<Health> => {
    known = await health(signal);
    return known;
  };
  const readOnce = async (): Promise<Health> => known ?? (await read(AbortSignal.timeout(healthMs)));

  const has = async (ability: Ability): Promise<boolean> => {
    const { abilities: offered } = await readOnce();
    return offered === undefined || offered.includes(ability);
  };

  /** A server without a list does not have what came after the lists. */
  const lists = async (ability: string): Promise<boolean> => (await readOnce()).abilities?.includes(ability) ?? false;

  /** Throws `conflict` for an ability that the box server does not have. */
  const need = async (ability: Ability): Promise<void> => {
    if (await has(ability)) return;
    throw new CodeBoxError(
      'conflict',
      `This box cannot ${abilities[ability]}: the box server of its image does not support it.`,
    );
  };

  return {
    health: read,
    need,
    has,
    /** Whether code of the box cannot create sockets and named pipes in its volumes. */
    isConfined: () => lists('confined'),
    /** Whether runs may share a connection. */
    sharesRuns: () => lists('runs'),
    /** Returns the languages that the box runs, the built-in ones last. */
    languages: async (): Promise<readonly string[]> => (await readOnce()).languages,
    /** Wraps a call so that it needs the ability. */
    only:
      <A extends unknown[], R>(ability: Ability, call: (...args: A) => Promise<R>) =>
      async (...args: A): Promise<R> => {
        await need(ability);
        return await call(...args);
      },
  };
};
