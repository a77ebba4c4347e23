import { and, eq, gt, lt, sql } from 'drizzle-orm';
import { calls, isCalled } from '../box-names.ts';
import type { Database } from '../database.ts';
import { deleteSome } from '../delete-some.ts';
import { tickets } from '../schema-tokens.ts';
import type { Caller } from './keys.ts';

/** Tickets that have not been redeemed, by their hash. Times are those of the database's clock. */
export const createTicketStore = (db: Database) => {
  const redeem = db
    .delete(tickets)
    .where(
      and(
        eq(tickets.hash, sql.placeholder('hash')),
        isCalled(tickets.boxId, tickets.tenantId),
        gt(tickets.expiresAt, sql`now()`),
      ),
    )
    .returning({ tenantId: tickets.tenantId, keyId: tickets.keyId })
    .prepare('redeem_ticket');
  return {
    /** Stores a new ticket; returns the time when it expires. */
    async insert(ticket: Caller & { hash: string; boxId: string }, seconds: number): Promise<Date> {
      const expiresAt = sql`now() + make_interval(secs => ${seconds})`;
      const [row] = await db
        .insert(tickets)
        .values({ ...ticket, expiresAt })
        .returning({ expiresAt: tickets.expiresAt });
      if (!row) throw new Error('an insert returned no row');
      return row.expiresAt;
    },

    /**
     * Deletes a ticket for a box, given by its id or by its user's name, and returns the caller who created it; of concurrent calls all but
     * one return undefined.
     */
    async redeem(hash: string, box: string): Promise<Caller | undefined> {
      const [row] = await redeem.execute({ hash, ...calls(box) });
      return row;
    },

    /** Deletes up to `limit` expired tickets; returns their number. */
    purge: (limit: number): Promise<number> => deleteSome(db, tickets, lt(tickets.expiresAt, sql`now()`), limit),
  };
};

export type TicketStore = ReturnType<typeof createTicketStore>;
