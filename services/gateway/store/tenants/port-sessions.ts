import { and, eq, gt, lt, sql } from 'drizzle-orm';
import { calls, isCalled } from '../box-names.ts';
import type { Database } from '../database.ts';
import { deleteSome } from '../delete-some.ts';
import { portSessions } from '../schema-tokens.ts';
import type { Caller } from './keys.ts';

/** Sessions of browsers for one port of one box, by the hash of their cookie. Times are those of the database's clock. */
export const createPortSessionStore = (db: Database) => {
  const select = db
    .select({ tenantId: portSessions.tenantId, keyId: portSessions.keyId })
    .from(portSessions)
    .where(
      and(
        eq(portSessions.hash, sql.placeholder('hash')),
        isCalled(portSessions.boxId, portSessions.tenantId),
        eq(portSessions.port, sql.placeholder('port')),
        gt(portSessions.expiresAt, sql`now()`),
      ),
    )
    .prepare('port_session');

  return {
    async insert(session: Caller & { hash: string; boxId: string; port: number }, seconds: number): Promise<void> {
      await db.insert(portSessions).values({ ...session, expiresAt: sql`now() + make_interval(secs => ${seconds})` });
    },

    /** Returns the caller who opened a session for this port of a box, given by its id or its user's name, unless it has expired. */
    async find(hash: string, box: string, port: number): Promise<Caller | undefined> {
      const [row] = await select.execute({ hash, port, ...calls(box) });
      return row;
    },

    /** Deletes up to `limit` expired sessions; returns their number. */
    purge: (limit: number): Promise<number> =>
      deleteSome(db, portSessions, lt(portSessions.expiresAt, sql`now()`), limit),
  };
};

export type PortSessionStore = ReturnType<typeof createPortSessionStore>;
