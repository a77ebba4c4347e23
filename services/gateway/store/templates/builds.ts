import { and, asc, eq, gt, inArray, isNotNull, ne, not, sql } from 'drizzle-orm';
import type { BuildEvent } from '#contract';
import type { Database } from '../database.ts';
import { isServing } from '../gateways.ts';
import { buildLogs, templates, templateVersions } from '../schema-templates.ts';
import type { VersionRow } from './templates.ts';

/** A build that this gateway performs. */
export interface Build {
  version: VersionRow;
  tenant: string;
  name: string;
}

export type LogEntry = Exclude<BuildEvent, { type: 'done' }>;

/** Builds of versions. Each belongs to a gateway until that has died; only its gateway ends it, by a compare-and-set. */
export const createBuildStore = (db: Database, gateway: string | null) => {
  const isMine = (id: string) =>
    and(
      eq(templateVersions.id, id),
      eq(templateVersions.state, 'building'),
      sql`${templateVersions.gatewayId} is not distinct from ${gateway}`,
    );
  /** What is left of a build that is over. */
  const over = { build: null, gatewayId: null, finishedAt: sql`now()` } as const;

  return {
    /** Records the box of a build. Returns false when the build belongs to another gateway by now, or its template is deleted. */
    async useBox(id: string, boxId: string): Promise<boolean> {
      const rows = await db
        .update(templateVersions)
        .set({ boxId })
        .where(isMine(id))
        .returning({ id: templateVersions.id });
      return rows.length > 0;
    },

    /** → `ready` with the blob of its box, which it keeps; older versions are replaced. Returns false as `useBox` does. */
    async succeed(id: string, kept: { box: string; blob: string; bytes: number }): Promise<boolean> {
      return await db.transaction(async (tx) => {
        const [row] = await tx
          .update(templateVersions)
          .set({ ...over, state: 'ready', boxId: kept.box, blobId: kept.blob, storageBytes: kept.bytes })
          .where(isMine(id))
          .returning();
        if (!row) return false;
        const newest = sql`(select max(number) from ${templateVersions} where template_id = ${row.templateId} and state = 'ready')`;
        await tx
          .update(templateVersions)
          .set({ state: 'replaced', blobId: null })
          .where(
            and(
              eq(templateVersions.templateId, row.templateId),
              eq(templateVersions.state, 'ready'),
              ne(templateVersions.number, sql`${newest}`),
            ),
          );
        return true;
      });
    },

    /** → `failed`. */
    async fail(id: string, cause: string): Promise<void> {
      await db
        .update(templateVersions)
        .set({ ...over, state: 'failed', cause })
        .where(isMine(id));
    },

    /** Takes over builds whose gateway has died, up to `limit`; those that `mostAttempts` gateways have begun fail. */
    async takeOver(mostAttempts: number, limit: number): Promise<Build[]> {
      const orphaned = db
        .select({ id: templateVersions.id })
        .from(templateVersions)
        .where(
          and(
            eq(templateVersions.state, 'building'),
            isNotNull(templateVersions.gatewayId),
            not(isServing(templateVersions.gatewayId)),
          ),
        )
        .limit(limit)
        .for('update', { skipLocked: true });
      const rows = await db
        .update(templateVersions)
        .set({ gatewayId: gateway, attempts: sql`${templateVersions.attempts} + 1` })
        .where(inArray(templateVersions.id, orphaned))
        .returning();
      const taken: Build[] = [];
      for (const version of rows) {
        const [template] = await db.select().from(templates).where(eq(templates.id, version.templateId));
        if (template && version.attempts <= mostAttempts)
          taken.push({ version, tenant: template.tenantId, name: template.name });
        else await this.fail(version.id, 'The gateways that built it ended each time.');
      }
      return taken;
    },

    /** Appends to the log of a build, behind what is there. */
    async log(id: string, entries: readonly Pick<LogEntry, 'type' | 'text'>[]): Promise<void> {
      if (entries.length === 0) return;
      const [last] = await db
        .select({ seq: sql<number>`coalesce(max(${buildLogs.seq}), 0)::int` })
        .from(buildLogs)
        .where(eq(buildLogs.versionId, id));
      const first = (last?.seq ?? 0) + 1;
      const rows = entries.map(({ type, text }, index) => ({ versionId: id, seq: first + index, type, text }));
      await db.insert(buildLogs).values(rows);
    },

    /** Returns a part of the log of a build, after an entry. */
    async logAfter(id: string, after: number, limit: number): Promise<LogEntry[]> {
      return await db
        .select({ seq: buildLogs.seq, type: buildLogs.type, text: buildLogs.text })
        .from(buildLogs)
        .where(and(eq(buildLogs.versionId, id), gt(buildLogs.seq, after)))
        .orderBy(asc(buildLogs.seq))
        .limit(limit);
    },
  };
};

export type BuildStore = ReturnType<typeof createBuildStore>;
