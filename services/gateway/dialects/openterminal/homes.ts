import { posix } from 'node:path';
import type { Context } from 'hono';
import { CodeBoxError, plainText, urlPathSchema } from '#contract';
import { checkInput } from '../../../http/endpoints/endpoint.ts';
import { type BoxRef, refOf } from '../../boxes/box-ref.ts';
import { isResting } from '../../boxes/life/box-state.ts';
import type { BoxRow } from '../../boxes/life/directory.ts';
import { workingFolder } from '../../boxes/life/working-folder.ts';
import { requireScope } from '../../http/admission/admission.ts';
import type { RouteParts } from '../../http/app.ts';
import { type Env, noteBox } from '../../http/env.ts';

const userSchema = plainText().min(1).max(240);
/** A box hibernates after this long without use. */
const idleSeconds = 900;

/** The boxes of the users of Open WebUI. */
export const createHomes = ({ creation, directory }: Pick<RouteParts, 'creation' | 'directory'>) => {
  /** Returns the user of the box that a request is for. Throws `invalid_request` when it names none. */
  const userOf = (c: Context<Env>): string => {
    // Open WebUI names it in the query of a WebSocket.
    const given = c.req.header('x-user-id') ?? (c.env?.upgrade && c.req.query('user_id'));
    return `openterminal/${checkInput(userSchema, given, '/headers/X-User-Id')}`;
  };

  const findBox = async (c: Context<Env>, tenant: string): Promise<BoxRow | undefined> => {
    const { items } = await directory.list(tenant, { user: userOf(c), limit: 1 });
    const [box] = items;
    if (box) noteBox(c, box.id);
    return box;
  };

  /** Returns the box of the user; undefined if there is none. Creates nothing. */
  const lookUp = async (c: Context<Env>, tenant: string): Promise<BoxRef | undefined> => {
    const box = await findBox(c, tenant);
    return box && refOf(box);
  };

  return {
    lookUp,

    /** Returns the box of the user if it is ready; undefined for one that any use would wake. */
    async lookUpAwake(c: Context<Env>, tenant: string): Promise<BoxRef | undefined> {
      const box = await findBox(c, tenant);
      return box?.state === 'ready' && !isResting(box) ? refOf(box) : undefined;
    },

    /** Returns the box of the user for a read. Throws `not_found` if there is none. */
    async find(c: Context<Env>, tenant: string): Promise<BoxRef> {
      const ref = await lookUp(c, tenant);
      if (!ref) throw new CodeBoxError('not_found', 'The user has no files and no commands yet.');
      return ref;
    },

    /** Returns the box of the user, and creates it if there is none, for which the key needs the scope `run`. */
    async of(c: Context<Env>, tenant: string): Promise<BoxRef> {
      const user = userOf(c);
      const living = await creation.reuse(tenant, user);
      if (!living) requireScope(c, 'run');
      const asked = { user, reuse: true, onIdle: 'hibernate', idleSeconds } as const;
      const box = living ?? (await creation.create(tenant, asked)).box;
      noteBox(c, box.id);
      return refOf(box);
    },
  };
};

export type Homes = ReturnType<typeof createHomes>;

/** Returns the absolute path that a caller names; relative ones begin at the working folder. */
export const toAbsolute = (path: string): string =>
  posix.resolve(workingFolder, path.replace(/^~(?=\/|$)/, workingFolder));

/**
 * Converts a path to one relative to the working folder, which is ''. Throws `not_found` for one elsewhere, since files of a box are only
 * reached there, and `invalid_request` for text that is no path.
 */
export const toBoxPath = (path: string): string => {
  const whole = toAbsolute(path);
  if (whole === workingFolder) return '';
  if (!whole.startsWith(`${workingFolder}/`))
    throw new CodeBoxError('not_found', `The path ${path} lies outside ${workingFolder}, where the files are.`);
  return checkInput(urlPathSchema, whole.slice(workingFolder.length + 1), '/path');
};
