import { and, desc, eq } from 'drizzle-orm';
import type { AuditQuery } from '#contract';
import { behind, toPage } from '../../../postgres/page.ts';
import type { Database } from '../database.ts';
import { audit } from '../schema.ts';

export type AuditRow = typeof audit.$inferSelect;

/** The author of a change, and its request. */
export interface ChangedBy {
  actor: 'admin' | 'gateway';
  requestId: string | null;
}

type Transaction = Parameters<Parameters<Database['transaction']>[0]>[0];

/** Adds a change to the audit log, in the transaction of the change. `details` must not contain secrets. */
export const recordChange = async (
  tx: Transaction,
  by: ChangedBy,
  change: { action: string; tenantId: string; target: string; details?: Record<string, unknown> },
): Promise<void> => {
  await tx.insert(audit).values({ ...by, details: {}, ...change });
};

/** Reads the audit log. */
export const createAuditStore = (db: Database) => ({
  /** Returns a page of the log, the newest entries first. */
  async list(query: AuditQuery) {
    const rows = await db
      .select()
      .from(audit)
      .where(
        and(
          query.tenant === undefined ? undefined : eq(audit.tenantId, query.tenant),
          behind(query.cursor, audit.createdAt, audit.id),
        ),
      )
      .orderBy(desc(audit.createdAt), desc(audit.id))
      .limit(query.limit + 1);
    return toPage(rows, query.limit);
  },
});

export type AuditStore = ReturnType<typeof createAuditStore>;
