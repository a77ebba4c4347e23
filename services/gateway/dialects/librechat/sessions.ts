import { createHash, randomBytes } from 'node:crypto';
import type { Context } from 'hono';
import { CodeBoxError, decodePath, type FileEntry, maxFolderDepth, plainText } from '#contract';
import { checkInput } from '../../../http/endpoints/endpoint.ts';
import { type BoxRef, refOf } from '../../boxes/box-ref.ts';
import type { Continuity } from '../../boxes/creation/creation.ts';
import { requireScope } from '../../http/admission/admission.ts';
import type { RouteParts } from '../../http/app.ts';
import { type Env, noteBox } from '../../http/env.ts';

/** LibreChat accepts no other ids of sessions and files. */
const idLength = 21;
const idPattern = /^[\w-]{21}$/;
/** A session ends its box after this long without use; its files are kept for the lifetime of the box. */
const idleSeconds = 300;
const lifetimeSeconds = 86_400;
/** How many files and folders of a session are considered: the first ones by path. */
const maxEntries = 10_000;
const pageSize = 1000;

/** The entry in the metadata of a box that names the user of LibreChat to whom its session belongs. */
const ownerEntry = 'librechat.user';
/** The entry that marks the session of an upload for an agent or a skill. */
const sharedEntry = 'librechat.shared';
const userSchema = plainText().max(256).optional();

const shorten = (bytes: Buffer): string => bytes.toString('base64url').slice(0, idLength);

/** The id of a file depends on its path alone. */
export const fileId = (path: string): string => shorten(createHash('sha256').update(path).digest());

export interface Session {
  id: string;
  ref: BoxRef;
  continuity: Continuity;
}

export interface SessionFile {
  id: string;
  path: string;
  entry: FileEntry;
}

interface Found {
  ref: BoxRef;
  /** Whether its files are those of an agent or a skill, which every user reaches. */
  isShared: boolean;
}

/** The path of an entry with all bytes of its name. */
const pathOf = ({ path, encodedPath }: FileEntry): string =>
  encodedPath === undefined ? path : decodePath(encodedPath);

/** Returns the user whom an upload names; with a token, the user of that. */
export const uploaderOf = (c: Context<Env>): string | undefined =>
  c.get('endUser') ?? checkInput(userSchema, c.req.header('user-id') || undefined, '/headers/User-Id');

/** Files of agents and skills are not those of a user: LibreChat decides who may use them. */
export const isShared = (kind: string | undefined): boolean => kind === 'agent' || kind === 'skill';

/** Returns the user whose files a request asks for, with `kind=user` and `id`; with a token, the user of that, whatever the kind. */
export const askerOf = (c: Context<Env>): string | undefined => {
  const isNamed = c.req.query('kind') === 'user';
  const named = isNamed ? checkInput(userSchema, c.req.query('id') || undefined, '/query/id') : undefined;
  return c.get('endUser') ?? named;
};

/** Sessions are the reusable boxes of users that are named after them. */
export const createSessions = ({
  creation,
  directory,
  files,
}: Pick<RouteParts, 'creation' | 'directory' | 'files'>) => {
  const userOf = (id: string) => `librechat/${id}`;

  /** Returns the session with this id; creates it for this user if there is none. */
  const open = async (c: Context<Env>, tenant: string, id: string, user: string | undefined): Promise<Session> => {
    requireScope(c, 'run');
    const asked = { user: userOf(id), reuse: true, idleSeconds, maxLifetimeSeconds: lifetimeSeconds };
    const metadata = user === undefined ? {} : { [ownerEntry]: user };
    const { box, continuity } = await creation.create(tenant, { ...asked, metadata, onIdle: 'hibernate' });
    noteBox(c, box.id);
    return { id, ref: refOf(box), continuity };
  };

  /**
   * Returns the box of a session; undefined if there is no such session, or if it belongs to another user and is not shared. A session
   * belongs to the first user whom LibreChat names for it.
   */
  const lookUp = async (tenant: string, id: string, user: string | undefined): Promise<Found | undefined> => {
    if (!idPattern.test(id)) return undefined;
    const { items } = await directory.list(tenant, { user: userOf(id), limit: 1 });
    const [box] = items;
    if (!box) return undefined;
    const ref = refOf(box);
    // What was uploaded decides, and never the kind that a request names: that would open every session.
    if (box.metadata[sharedEntry] !== undefined) return { ref, isShared: true };
    const owner = box.metadata[ownerEntry];
    if (user !== undefined && owner === undefined)
      await directory.update(ref, { metadata: { ...box.metadata, [ownerEntry]: user } });
    return user === undefined || (owner ?? user) === user ? { ref, isShared: false } : undefined;
  };

  /** Returns the box of a session. Throws `not_found`, also if it belongs to another user. */
  const find = async (c: Context<Env>, tenant: string, id: string, user: string | undefined): Promise<BoxRef> => {
    const found = await lookUp(tenant, id, user);
    if (!found) throw new CodeBoxError('not_found', 'There is no such session.');
    noteBox(c, found.ref.box);
    return found.ref;
  };

  /** Returns the first `maxEntries` files and folders of a session, without the folders. */
  const list = async (ref: BoxRef): Promise<SessionFile[]> => {
    const found: SessionFile[] = [];
    let [cursor, seen]: [string | undefined, number] = [undefined, 0];
    do {
      const page = await files.list(ref, '', { depth: maxFolderDepth, limit: pageSize, cursor });
      for (const entry of page.items) {
        if (entry.type === 'file') found.push({ id: fileId(pathOf(entry)), path: pathOf(entry), entry });
      }
      seen += page.items.length;
      cursor = page.nextCursor ?? undefined;
    } while (cursor !== undefined && seen < maxEntries);
    return found;
  };

  return {
    open,
    lookUp,
    find,
    list,

    /** Marks a session as one whose files are those of an agent or a skill. */
    async share(ref: BoxRef): Promise<void> {
      const { metadata } = await directory.find(ref);
      await directory.update(ref, { metadata: { ...metadata, [sharedEntry]: 'true' } });
    },

    create: (c: Context<Env>, tenant: string, user: string | undefined): Promise<Session> =>
      open(c, tenant, shorten(randomBytes(16)), user),

    /** Returns the session of a hint: the same hint of a tenant, or of a user with a token, always has the same one. */
    openHinted: (c: Context<Env>, tenant: string, hint: string, user: string | undefined): Promise<Session> =>
      open(
        c,
        tenant,
        shorten(
          createHash('sha256')
            .update(['hint', c.get('endUser') ?? [], hint].flat().join(' '))
            .digest(),
        ),
        user,
      ),

    /** Returns a file of a session. Throws `not_found`. */
    async findFile(ref: BoxRef, id: string): Promise<SessionFile> {
      const file = (await list(ref)).find((one) => one.id === id);
      if (!file) throw new CodeBoxError('not_found', 'There is no such file in the session.');
      return file;
    },
  };
};

export type Sessions = ReturnType<typeof createSessions>;
