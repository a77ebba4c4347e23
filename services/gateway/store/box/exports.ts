import { and, desc, eq, getTableColumns, gt, inArray, lt, not, or, sql } from 'drizzle-orm';
import type { ExportedFile, ExportFailure, Page, PageQuery } from '#contract';
import { behind, toPage } from '../../../postgres/page.ts';
import type { Database } from '../database.ts';
import { deleteSome } from '../delete-some.ts';
import { isServing } from '../gateways.ts';
import { lockTenant } from '../lock-tenant.ts';
import { fileExports } from '../schema-exports.ts';

export type ExportRow = typeof fileExports.$inferSelect;
export type ExportSummaryRow = Omit<ExportRow, 'files'>;

/** What an export has done: `files` may be fewer than `fileCount`. */
export interface ExportOutcome {
  files: ExportedFile[];
  fileCount: number;
  sizeBytes: number;
  skipped: number;
}

/** Ended exports of a box that are kept. */
const mostEnded = 100;

/** Exports of files. Each belongs to the gateway that began it: no other has the caller's keys. */
export const createExportStore = (db: Database, gateway: string | null) => {
  const { files: _, ...summary } = getTableColumns(fileExports);
  const ofBox = (boxId: string, id: string) => and(eq(fileExports.boxId, boxId), eq(fileExports.id, id));
  const isMine = sql`${fileExports.gatewayId} is not distinct from ${gateway}`;
  const isRunning = eq(fileExports.state, 'running');
  const goesOn = and(isRunning, not(fileExports.isCanceled));
  return {
    /** Inserts an export, unless the tenant has `most` that run: then undefined is returned. Only the newest ended ones of the box stay. */
    async insert(
      row: { id: string; tenantId: string; boxId: string; target: string | null },
      most: number,
    ): Promise<ExportRow | undefined> {
      return await db.transaction(async (tx) => {
        await lockTenant(tx, row.tenantId);
        const running = await tx.$count(fileExports, and(eq(fileExports.tenantId, row.tenantId), isRunning));
        if (running >= most) return undefined;
        const old = tx
          .select({ id: fileExports.id })
          .from(fileExports)
          .where(and(eq(fileExports.boxId, row.boxId), not(isRunning)))
          .orderBy(desc(fileExports.createdAt), desc(fileExports.id))
          .offset(mostEnded);
        await tx.delete(fileExports).where(inArray(fileExports.id, old));
        const [inserted] = await tx
          .insert(fileExports)
          .values({ ...row, gatewayId: gateway })
          .returning();
        return inserted;
      });
    },

    async find(boxId: string, id: string): Promise<ExportRow | undefined> {
      const [row] = await db.select().from(fileExports).where(ofBox(boxId, id));
      return row;
    },

    async list(boxId: string, query: PageQuery): Promise<Page<ExportSummaryRow>> {
      const rows = await db
        .select(summary)
        .from(fileExports)
        .where(and(eq(fileExports.boxId, boxId), behind(query.cursor, fileExports.createdAt, fileExports.id)))
        .orderBy(desc(fileExports.createdAt), desc(fileExports.id))
        .limit(query.limit + 1);
      return toPage(rows, query.limit);
    },

    /** Writes how much has arrived. Returns whether the export goes on. */
    async progress(id: string, counts: Omit<ExportOutcome, 'files'>): Promise<boolean> {
      const { rowCount } = await db
        .update(fileExports)
        .set(counts)
        .where(and(eq(fileExports.id, id), isMine, goesOn));
      return rowCount === 1;
    },

    /** Returns whether an export runs and was not canceled. */
    goesOn: async (id: string): Promise<boolean> =>
      (await db.$count(fileExports, and(eq(fileExports.id, id), isMine, goesOn))) > 0,

    /** Ends an export that runs. May be repeated. */
    async finish(id: string, outcome: ExportOutcome, failure: ExportFailure | null): Promise<void> {
      await db
        .update(fileExports)
        .set({ ...outcome, state: failure ? 'failed' : 'done', failure, endedAt: sql`now()` })
        .where(and(eq(fileExports.id, id), isMine, isRunning));
    },

    /** Has the gateway of an export end it, if it runs. Returns whether there is such an export. */
    async cancel(boxId: string, id: string): Promise<boolean> {
      const { rowCount } = await db.update(fileExports).set({ isCanceled: true }).where(ofBox(boxId, id));
      return rowCount === 1;
    },

    /** Returns the ids behind `after`, in their order, of up to `limit` exports that run at this gateway or at one that has died. */
    async unfinished(after: string, limit: number): Promise<string[]> {
      const rows = await db
        .select({ id: fileExports.id })
        .from(fileExports)
        .where(and(isRunning, gt(fileExports.id, after), or(isMine, not(isServing(fileExports.gatewayId)))))
        .orderBy(fileExports.id)
        .limit(limit);
      return rows.map(({ id }) => id);
    },

    /** Fails those of some exports that run. */
    async fail(ids: readonly string[], failure: ExportFailure): Promise<void> {
      await db
        .update(fileExports)
        .set({ state: 'failed', failure, endedAt: sql`now()` })
        .where(and(inArray(fileExports.id, [...ids]), isRunning));
    },

    /** Deletes up to `limit` exports that ended this long ago; returns their number. */
    purge: (afterSeconds: number, limit: number): Promise<number> =>
      deleteSome(db, fileExports, lt(fileExports.endedAt, sql`now() - make_interval(secs => ${afterSeconds})`), limit),
  };
};

export type ExportStore = ReturnType<typeof createExportStore>;
