import { and, desc, eq, getTableColumns, inArray, lt, not, notInArray, or, type SQL, sql } from 'drizzle-orm';
import type { PgColumn } from 'drizzle-orm/pg-core';
import type { ExportedFile, ExportFailure, Page, PageQuery } from '#contract';
import { behind, toPage } from '../../../postgres/page.ts';
import type { Database } from '../database.ts';
import { deleteSome } from '../delete-some.ts';
import { isServing } from '../gateways.ts';
import { tenants } from '../schema.ts';
import { fileExports } from '../schema-exports.ts';

export type ExportRow = typeof fileExports.$inferSelect;
export type ExportSummaryRow = Omit<ExportRow, 'files'>;

/** Exports of files. Each belongs to the gateway that began it: no other has the caller's keys. */
export const createExportStore = (db: Database, gateway: string | null) => {
  const { files: _, ...summary } = getTableColumns(fileExports);
  const ofBox = (boxId: string, id: string) => and(eq(fileExports.boxId, boxId), eq(fileExports.id, id));
  const isMine = sql`${fileExports.gatewayId} is not distinct from ${gateway}`;
  const isRunning = eq(fileExports.state, 'running');
  const failed = (failure: ExportFailure) => ({ state: 'failed', failure, endedAt: sql`now()` }) as const;

  /** Writes all files that have arrived, and changes the row; it may be repeated. Returns its state. */
  const write = async (id: string, files: readonly ExportedFile[], changes: Record<string, SQL | number>) => {
    const [row] = await db
      .update(fileExports)
      .set({
        files: [...files],
        fileCount: files.length,
        sizeBytes: files.reduce((sum, { sizeBytes }) => sum + sizeBytes, 0),
        ...changes,
      })
      .where(and(eq(fileExports.id, id), isMine))
      .returning({ state: fileExports.state });
    return row?.state;
  };

  return {
    /** Inserts an export, unless the tenant has `most` that run: then undefined is returned. */
    async insert(
      row: { id: string; tenantId: string; boxId: string; target: string | null },
      most: number,
    ): Promise<ExportRow | undefined> {
      return await db.transaction(async (tx) => {
        // Concurrent requests of a tenant count one after the other.
        await tx.select({ id: tenants.id }).from(tenants).where(eq(tenants.id, row.tenantId)).for('no key update');
        const running = await tx.$count(fileExports, and(eq(fileExports.tenantId, row.tenantId), isRunning));
        if (running >= most) return undefined;
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

    /** Writes the files that have arrived so far. Returns whether the export still runs. */
    progress: async (id: string, files: readonly ExportedFile[]): Promise<boolean> =>
      (await write(id, files, {})) === 'running',

    runs: async (id: string): Promise<boolean> =>
      (await db.$count(fileExports, and(eq(fileExports.id, id), isRunning))) > 0,

    /** Ends an export with all files that have arrived; one that was canceled stays so. May be repeated. */
    async finish(
      id: string,
      { files, skipped, failure }: { files: readonly ExportedFile[]; skipped: number; failure: ExportFailure | null },
    ): Promise<void> {
      const unlessEnded = (column: PgColumn, value: SQL) =>
        sql`case when ${isRunning} then ${value} else ${column} end`;
      await write(id, files, {
        skipped,
        state: unlessEnded(fileExports.state, sql`${failure ? 'failed' : 'done'}::text`),
        failure: unlessEnded(fileExports.failure, sql`${failure && JSON.stringify(failure)}::jsonb`),
        endedAt: unlessEnded(fileExports.endedAt, sql`now()`),
      });
    },

    /** Ends an export that runs at any gateway, which notices. Returns whether there is such an export. */
    async cancel(boxId: string, id: string, failure: ExportFailure): Promise<boolean> {
      await db
        .update(fileExports)
        .set(failed(failure))
        .where(and(ofBox(boxId, id), isRunning));
      return (await db.$count(fileExports, ofBox(boxId, id))) > 0;
    },

    /** Fails up to `limit` exports whose gateway has died, and those of this gateway on which it does not work. */
    async failAbandoned(working: readonly string[], failure: ExportFailure, limit: number): Promise<void> {
      const abandoned = db
        .select({ id: fileExports.id })
        .from(fileExports)
        .where(
          and(
            isRunning,
            or(
              and(isMine, notInArray(fileExports.id, [...working])),
              and(not(isMine), not(isServing(fileExports.gatewayId))),
            ),
          ),
        )
        .limit(limit)
        .for('update', { skipLocked: true });
      await db.update(fileExports).set(failed(failure)).where(inArray(fileExports.id, abandoned));
    },

    /** Deletes up to `limit` exports that ended this long ago; returns their number. */
    purge: (afterSeconds: number, limit: number): Promise<number> =>
      deleteSome(db, fileExports, lt(fileExports.endedAt, sql`now() - make_interval(secs => ${afterSeconds})`), limit),
  };
};

export type ExportStore = ReturnType<typeof createExportStore>;
