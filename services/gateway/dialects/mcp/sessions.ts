import { randomBytes, timingSafeEqual } from 'node:crypto';
import { CodeBoxError } from '#contract';
import { type BoxRef, refOf } from '../../boxes/box-ref.ts';
import type { RouteParts } from '../../http/app.ts';
import type { Seal } from '../../seal.ts';

const form = /^([\w-]{22})\.([\w-]{43})$/;

/**
 * Sessions of clients. A session is a reusable box of the user `mcp/<name>`, whose name is in the session id, sealed for its owner: a tenant,
 * or one of its end users. So every gateway recognises the id without a record of it, and the box is created by the first call that needs it.
 */
export const createSessions = (seal: Seal, { directory, endings }: Pick<RouteParts, 'directory' | 'endings'>) => {
  const toId = (owner: string, name: string): string => `${name}.${seal(`mcp session ${name} of ${owner}`)}`;

  const newest = async (tenant: string, user: string) => {
    const states = ['creating', 'ready', 'paused', 'hibernated', 'deleting', 'deleted'] as const;
    return (await directory.list(tenant, { user, states, limit: 1 })).items[0];
  };

  return {
    /** Returns the id of a new session. */
    begin: (owner: string): string => toId(owner, randomBytes(16).toString('base64url')),

    /** Returns the user whose reusable box the session is. Throws `not_found` for an id that was not made for this owner. */
    userOf(owner: string, id: string): string {
      const name = form.exec(id)?.[1] ?? '';
      const [given, expected] = [Buffer.from(id), Buffer.from(toId(owner, name))];
      if (given.length !== expected.length || !timingSafeEqual(given, expected)) throw noSession();
      return `mcp/${name}`;
    },

    /** Throws `not_found` for a session whose box was deleted, so that its client begins another one. */
    async checkLiving(tenant: string, user: string): Promise<void> {
      if ((await newest(tenant, user))?.cause?.code === 'deleted') throw noSession();
    },

    /** Returns the box of a user, undefined while there is none. Nothing is created. */
    async boxOf(tenant: string, user: string): Promise<BoxRef | undefined> {
      const row = await newest(tenant, user);
      return row && row.endedAt === null ? refOf(row) : undefined;
    },

    /** Deletes the box of a session. */
    async end(tenant: string, user: string): Promise<void> {
      const row = await newest(tenant, user);
      if (row && row.endedAt === null) await endings.delete(refOf(row));
    },
  };
};

const noSession = () => new CodeBoxError('not_found', 'Session not found');
