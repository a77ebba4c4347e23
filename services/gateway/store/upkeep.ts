import { and, eq, exists, gt, inArray, isNotNull, isNull, lt, lte, or, type SQL, sql } from 'drizzle-orm';
import type { PgTable } from 'drizzle-orm/pg-core';
import type { Database } from './database.ts';
import { blobs, boxes, executions, instances, quotas, sites } from './schema.ts';
import { fileExports } from './schema-exports.ts';
import { templates, templateVersions } from './schema-templates.ts';
import { volumes } from './schema-volumes.ts';
import { webhooks } from './schema-webhooks.ts';
import { freshMs } from './usage/usage.ts';

/**
 * Which work of a sweep there may be at a site. Each is true whenever the statement that finds this work would find any, and false most of the
 * time while it would not.
 */
export interface Due {
  /** Whether the place still holds the name of the site. */
  isOurs: boolean;
  ends: boolean;
  budgets: boolean;
  metering: boolean;
  cpuQuotas: boolean;
  probes: boolean;
  destructions: boolean;
  creations: boolean;
  /** Instances of pools, and pools of templates that tenants have built. */
  pooled: boolean;
  builtPools: boolean;
  executions: boolean;
  rests: boolean;
  blobs: boolean;
  deliveries: boolean;
  builds: boolean;
  exports: boolean;
  volumes: boolean;
}

/** While it is not known what is due, each kind of work looks for itself. */
export const everything: Due = {
  isOurs: true,
  ends: true,
  budgets: true,
  metering: true,
  cpuQuotas: true,
  probes: true,
  destructions: true,
  creations: true,
  pooled: true,
  builtPools: true,
  executions: true,
  rests: true,
  blobs: true,
  deliveries: true,
  builds: true,
  exports: true,
  volumes: true,
};

/** Finds out in one statement what there is to do, so that a sweep of a site where nothing is due costs one statement. */
export const createUpkeepStore = (db: Database) => {
  // With literals, so that partial indexes apply to a prepared statement too.
  const any = (table: PgTable, where: SQL | undefined) =>
    sql<boolean>`${exists(db.select({ one: sql`1` }).from(table).where(where)).inlineParams()}`;
  const atSite = eq(instances.site, sql.placeholder('site'));
  const isReady = eq(boxes.state, 'ready');
  const isPast = lte(boxes.expiresAt, sql`now()`);
  const isUnused = sql`${boxes.lastActiveAt} + make_interval(secs => ${boxes.idleSeconds}) <= now()`;
  const isUnsaved = or(isNull(boxes.checkpointAt), lt(boxes.checkpointAt, boxes.lastActiveAt));
  const ofTenant = db.select({ one: sql`1` }).from(templates).where(eq(templates.id, instances.template));

  const statement = db
    .select({
      isOurs: any(sites, and(eq(sites.name, sql.placeholder('site')), eq(sites.place, sql.placeholder('place')))),
      ends: sql<boolean>`${or(
        any(boxes, and(isNull(boxes.endedAt), isPast)),
        any(boxes, and(isReady, eq(boxes.onIdle, 'delete'), isUnused)),
      )}`,
      budgets: any(boxes, and(isReady, sql`${boxes.limits} ->> 'cpuSeconds' is not null`)),
      metering: any(
        instances,
        and(
          atSite,
          or(isNotNull(instances.boxId), exists(ofTenant)),
          lt(instances.meteredAt, sql`now() - make_interval(secs => ${freshMs / 1000})`),
        ),
      ),
      cpuQuotas: any(quotas, isNotNull(quotas.cpuSecondsPerDay)),
      probes: any(instances, and(atSite, eq(instances.state, 'running'))),
      destructions: any(instances, and(atSite, inArray(instances.state, ['creating', 'destroying']))),
      creations: any(boxes, eq(boxes.state, 'creating')),
      pooled: any(instances, and(atSite, isNull(instances.boxId), inArray(instances.state, ['creating', 'warm']))),
      builtPools: any(
        templateVersions,
        and(eq(templateVersions.state, 'ready'), gt(sql`(${templateVersions.settings} ->> 'warm')::int`, 0)),
      ),
      executions: any(executions, eq(executions.status, 'running')),
      rests: sql<boolean>`${or(
        any(boxes, and(isNotNull(boxes.task), lt(boxes.taskUntil, sql`now()`))),
        any(boxes, and(isReady, eq(boxes.onIdle, 'pause'), isUnused)),
        any(boxes, and(isReady, eq(boxes.onIdle, 'hibernate'), or(isUnused, isUnsaved))),
      )}`,
      blobs: any(blobs, undefined),
      deliveries: any(webhooks, eq(webhooks.enabled, true)),
      builds: any(templateVersions, eq(templateVersions.state, 'building')),
      exports: any(fileExports, eq(fileExports.state, 'running')),
      volumes: any(volumes, sql`${volumes.state} <> 'ready'`),
    })
    .from(sql`(select 1) one`)
    .prepare('upkeep_due');

  return {
    /** Returns what may be due at a site, for a gateway at this place. */
    async due({ site, place }: { site: string; place: string }): Promise<Due> {
      const [row] = await statement.execute({ site, place });
      if (!row) throw new Error('The database returned no row.');
      return row;
    },
  };
};
