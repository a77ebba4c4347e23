import { and, asc, count, desc, eq, getTableColumns, inArray, lte, ne, not, sql } from 'drizzle-orm';
import { CodeBoxError, type PageQuery } from '#contract';
import { behind, toPage } from '../../../postgres/page.ts';
import type { Database } from '../database.ts';
import { lockTenant } from '../lock-tenant.ts';
import { quotas, tenants, usage } from '../schema.ts';
import { type TemplateSettings, templates, templateVersions } from '../schema-templates.ts';
import { overQuota } from '../usage/over-quota.ts';

/** A version without what to build, which may be large. */
export type VersionRow = Omit<typeof templateVersions.$inferSelect, 'build'>;
const { build: _, ...versionColumns } = getTableColumns(templateVersions);

/** A version that boxes are created from. */
export interface ReadyVersion {
  templateId: string;
  name: string;
  number: number;
  settings: TemplateSettings;
  /** The name of the box in which it was built, and of the blob that it left. */
  box: string;
  blob: string;
}

/** Bounds on what one tenant may have. */
export interface TemplateBounds {
  templates: number;
  builds: number;
  /** Warm instances of all its templates. */
  warm: number;
}

export const tooManyBuilds = (limit: number): CodeBoxError =>
  new CodeBoxError('conflict', `At most ${limit} templates per tenant are built at once.`, { retryAfterSeconds: 30 });

const keptVersions = 20;

const readyColumns = {
  templateId: templates.id,
  name: templates.name,
  number: templateVersions.number,
  settings: templateVersions.settings,
  box: sql<string>`${templateVersions.boxId}`,
  blob: sql<string>`${templateVersions.blobId}`,
};

/** Throws `quota_exceeded` when a tenant has too many templates, or would keep more warm instances than it may have boxes. */
const checkQuotas = async (
  tx: Pick<Database, 'select'>,
  tenant: string,
  { name, isNew, warm }: { name: string; isNew: boolean; warm: number },
  bounds: TemplateBounds,
) => {
  const [allowed] = await tx.select().from(quotas).where(eq(quotas.tenantId, tenant));
  if (isNew) {
    const [used] = await tx.select({ n: count() }).from(templates).where(eq(templates.tenantId, tenant));
    const limit = allowed?.templates ?? bounds.templates;
    if ((used?.n ?? 0) > limit) throw overQuota({ name: 'templates', limit, used: (used?.n ?? 1) - 1 }, 60);
  }
  if (warm === 0) return;
  // A template keeps the instances of one version at a time.
  const others = tx
    .select({ warm: sql<number>`max((${templateVersions.settings} ->> 'warm')::int)`.as('warm') })
    .from(templateVersions)
    .innerJoin(templates, eq(templates.id, templateVersions.templateId))
    .where(
      and(
        eq(templates.tenantId, tenant),
        ne(templates.name, name),
        inArray(templateVersions.state, ['building', 'ready']),
      ),
    )
    .groupBy(templates.id)
    .as('others');
  const [kept] = await tx.select({ n: sql<number>`coalesce(sum(${others.warm}), 0)::int` }).from(others);
  const [used, limit] = [kept?.n ?? 0, allowed?.boxes ?? bounds.warm];
  if (used + warm <= limit) return;
  throw new CodeBoxError(
    'quota_exceeded',
    `The other templates keep ${used} warm instances, and all may keep ${limit}.`,
    {
      quota: { name: 'boxes', limit, used },
      retryAfterSeconds: 60,
    },
  );
};

/** True for templates whose tenant has used all its CPU time of the day. */
const isOverCpu = sql`exists (
  select 1 from ${quotas}
  where ${quotas.tenantId} = ${templates.tenantId} and ${quotas.cpuSecondsPerDay}::bigint * 1000 <= (
    select coalesce(sum(${usage.cpuMs}), 0) from ${usage}
    where ${usage.tenantId} = ${templates.tenantId} and ${usage.day} = (now() at time zone 'utc')::date
  )
)`;

/** The templates of tenants, and their versions. */
export const createTemplateStore = (db: Database) => {
  const ready = () =>
    db.select(readyColumns).from(templates).innerJoin(templateVersions, eq(templateVersions.templateId, templates.id));
  const selectReady = ready()
    .where(
      and(
        eq(templates.tenantId, sql.placeholder('tenant')),
        eq(templates.name, sql.placeholder('name')),
        eq(templateVersions.state, 'ready'),
      ),
    )
    .orderBy(desc(templateVersions.number))
    .limit(1)
    .prepare('ready_template');

  return {
    /** Finds the version of a tenant's template that new boxes are created from. */
    async findReady(tenant: string, name: string): Promise<ReadyVersion | undefined> {
      const [row] = await selectReady.execute({ tenant, name });
      return row;
    },

    /** Returns a page, by id, of the templates that keep warm instances, of all active tenants that have CPU time left today. */
    async warm(after: string, limit: number): Promise<ReadyVersion[]> {
      return await ready()
        .innerJoin(tenants, eq(tenants.id, templates.tenantId))
        .where(
          and(
            eq(tenants.state, 'active'),
            not(isOverCpu),
            eq(templateVersions.state, 'ready'),
            sql`(${templateVersions.settings} ->> 'warm')::int > 0`,
            sql`${templates.id} > ${after}`,
          ),
        )
        .orderBy(asc(templates.id))
        .limit(limit);
    },

    /** Returns the ready templates of a tenant by name, of which it has a bounded number. */
    async list(tenant: string, limit: number): Promise<ReadyVersion[]> {
      return await ready()
        .where(and(eq(templates.tenantId, tenant), eq(templateVersions.state, 'ready')))
        .orderBy(asc(templates.name))
        .limit(limit);
    },

    /**
     * Inserts the next version of a template, and the template if it is new. Throws `conflict` when the tenant has too many
     * builds, `quota_exceeded` when it has too many templates or warm instances.
     */
    async begin(
      ids: { template: string; version: string },
      { tenant, name, ...by }: { tenant: string; name: string; gatewayId: string; site: string },
      { settings, build }: { settings: TemplateSettings; build: string },
      bounds: TemplateBounds,
    ): Promise<VersionRow> {
      return await db.transaction(async (tx) => {
        await lockTenant(tx, tenant);
        const [building] = await tx
          .select({ n: count() })
          .from(templateVersions)
          .innerJoin(templates, eq(templates.id, templateVersions.templateId))
          .where(and(eq(templates.tenantId, tenant), eq(templateVersions.state, 'building')));
        if ((building?.n ?? 0) >= bounds.builds) throw tooManyBuilds(bounds.builds);
        const made = await tx
          .insert(templates)
          .values({ id: ids.template, tenantId: tenant, name })
          .onConflictDoNothing()
          .returning({ id: templates.id });
        await checkQuotas(tx, tenant, { name, isNew: made.length > 0, warm: settings.warm }, bounds);
        const [template] = await tx
          .select({ id: templates.id })
          .from(templates)
          .where(and(eq(templates.tenantId, tenant), eq(templates.name, name)));
        const number = sql`(select coalesce(max(number), 0) + 1 from ${templateVersions} where template_id = ${template?.id})`;
        const [row] = await tx
          .insert(templateVersions)
          .values({
            id: ids.version,
            templateId: template?.id ?? '',
            number: sql<number>`${number}`,
            settings,
            build,
            ...by,
          })
          .returning(versionColumns);
        if (!row) throw new Error('an insert returned no row');
        await tx
          .delete(templateVersions)
          .where(
            and(
              eq(templateVersions.templateId, row.templateId),
              lte(templateVersions.number, row.number - keptVersions),
              inArray(templateVersions.state, ['failed', 'replaced']),
            ),
          );
        return row;
      });
    },

    /** Returns a version of a tenant's template, by its number or id. */
    async findVersion(tenant: string, name: string, version: number | string): Promise<VersionRow | undefined> {
      const isIt =
        typeof version === 'number' ? eq(templateVersions.number, version) : eq(templateVersions.id, version);
      const [row] = await db
        .select(versionColumns)
        .from(templateVersions)
        .innerJoin(templates, eq(templates.id, templateVersions.templateId))
        .where(and(eq(templates.tenantId, tenant), eq(templates.name, name), isIt));
      return row;
    },

    /** Returns a page of the versions of a template, the newest first; undefined when there is no such template. */
    async versions(tenant: string, name: string, { limit, cursor }: PageQuery) {
      const [template] = await db
        .select({ id: templates.id })
        .from(templates)
        .where(and(eq(templates.tenantId, tenant), eq(templates.name, name)));
      if (!template) return undefined;
      const rows = await db
        .select(versionColumns)
        .from(templateVersions)
        .where(
          and(
            eq(templateVersions.templateId, template.id),
            behind(cursor, templateVersions.createdAt, templateVersions.id),
          ),
        )
        .orderBy(desc(templateVersions.createdAt), desc(templateVersions.id))
        .limit(limit + 1);
      return toPage(rows, limit);
    },

    /** Deletes a template with its versions, whose blobs then belong to nobody. Returns whether there was one. */
    async delete(tenant: string, name: string): Promise<boolean> {
      const rows = await db
        .delete(templates)
        .where(and(eq(templates.tenantId, tenant), eq(templates.name, name)))
        .returning({ id: templates.id });
      return rows.length > 0;
    },
  };
};

export type TemplateStore = ReturnType<typeof createTemplateStore>;
