import { and, asc, eq, gt, inArray, isNotNull, ne, not, sql } from 'drizzle-orm';
import type { BuildEvent } from '#contract';
import type { Database } from '../database.ts';
import { isServing } from '../gateways.ts';
import { buildLogs, type TemplateSettings, templates, templateVersions } from '../schema-templates.ts';

/** A build that this gateway performs. */
export interface Build {
  id: string;
  tenant: string;
  /** The name of the template, and the number of its version. */
  name: string;
  number: number;
  settings: TemplateSettings;
  /** The box of an earlier attempt. */
  boxId: string | null;
  /** What to build, encrypted. */
  request: string | null;
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
    /** Begins an attempt. Returns undefined when the build belongs to another gateway by now, is over, or its template is deleted. */
    async begin(id: string): Promise<Build | undefined> {
      const [row] = await db
        .update(templateVersions)
        .set({ attempts: sql`${templateVersions.attempts} + 1` })
        .from(templates)
        .where(and(isMine(id), eq(templates.id, templateVersions.templateId)))
        .returning({
          id: templateVersions.id,
          tenant: templates.tenantId,
          name: templates.name,
          number: templateVersions.number,
          settings: templateVersions.settings,
          boxId: templateVersions.boxId,
          request: templateVersions.build,
        });
      return row;
    },

    /** Does not count an attempt that ends because its gateway stops. */
    async withdraw(id: string): Promise<void> {
      await db
        .update(templateVersions)
        .set({ attempts: sql`${templateVersions.attempts} - 1` })
        .where(isMine(id));
    },

    /** Returns a page, by id, of the builds that belong to this gateway. */
    async mine(after: string, limit: number): Promise<string[]> {
      const rows = await db
        .select({ id: templateVersions.id })
        .from(templateVersions)
        .where(
          and(
            eq(templateVersions.state, 'building'),
            sql`${templateVersions.gatewayId} is not distinct from ${gateway}`,
            gt(templateVersions.id, after),
          ),
        )
        .orderBy(asc(templateVersions.id))
        .limit(limit);
      return rows.map(({ id }) => id);
    },

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
        // Versions of one template become ready one after the other, so that one of them stays ready.
        const template = db
          .select({ id: templateVersions.templateId })
          .from(templateVersions)
          .where(eq(templateVersions.id, id));
        await tx.select({ id: templates.id }).from(templates).where(inArray(templates.id, template)).for('update');
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

    /** Takes over builds at a site whose gateway has died, up to `limit`; those that were begun `mostAttempts` times fail. */
    async takeOver(site: string, mostAttempts: number, limit: number): Promise<{ id: string; tenant: string }[]> {
      const orphaned = db
        .select({ id: templateVersions.id })
        .from(templateVersions)
        .where(
          and(
            eq(templateVersions.state, 'building'),
            eq(templateVersions.site, site),
            isNotNull(templateVersions.gatewayId),
            not(isServing(templateVersions.gatewayId)),
          ),
        )
        .limit(limit)
        .for('update', { skipLocked: true });
      const rows = await db
        .update(templateVersions)
        .set({ gatewayId: gateway })
        .from(templates)
        .where(and(inArray(templateVersions.id, orphaned), eq(templates.id, templateVersions.templateId)))
        .returning({ id: templateVersions.id, tenant: templates.tenantId, attempts: templateVersions.attempts });
      for (const { id, attempts } of rows)
        if (attempts >= mostAttempts)
          await this.fail(id, 'Every gateway that worked on this build stopped before finishing it.');
      return rows.filter(({ attempts }) => attempts < mostAttempts);
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
