import { setTimeout as sleep } from 'node:timers/promises';
import { type BuildEvent, CodeBoxError, hasCode, type PageQuery } from '#contract';
import { newId } from '../../../postgres/id.ts';
import type { Vault } from '../../../vault/vault.ts';
import type { Driver } from '../../drivers/driver.ts';
import type { Store } from '../../store/store.ts';
import type { VersionRow } from '../../store/templates/templates.ts';
import { checkInlineFiles } from '../creation/inline-files.ts';
import { requireLimits, requireNetwork } from '../life/capabilities.ts';
import type { Directory } from '../life/directory.ts';
import type { Catalog } from '../supply/catalog.ts';
import { baseOf, resolveLimits, type Template } from '../supply/templates.ts';
import { type Builder, type BuildPlan, buildsPerTenant, sealed } from './builder.ts';

export interface BuildsOptions {
  gateway: string;
  driver: Pick<Driver, 'capabilities' | 'site'>;
  store: Pick<Store, 'templates' | 'builds'>;
  catalog: Pick<Catalog, 'list' | 'of' | 'pick'>;
  directory: Pick<Directory, 'find' | 'idOf'>;
  builder: Pick<Builder, 'begin'>;
  vault: Vault;
}

/** What one tenant may have without a quota of its own. */
const bounds = { templates: 100, builds: buildsPerTenant, warm: 100 };
const namePattern = /^[a-z0-9][a-z0-9-]{0,62}$/;
const [pollMs, logPage] = [500, 100];

/** The templates that tenants build by the API. */
export const createBuilds = (options: BuildsOptions) => {
  const { gateway, driver, store, catalog, directory, builder, vault } = options;
  /** Returns the template that a build begins with, with the limits and network of its box if it begins with one. */
  const sourceOf = async (tenant: string, { from }: Pick<BuildPlan, 'from'>): Promise<Template> => {
    if ('template' in from)
      return await catalog.pick(tenant, from.template).catch((error: unknown) => {
        if (!hasCode(error, 'invalid_request')) throw error;
        throw refusal('/from/template', error.errors?.[0]?.detail ?? 'is not a template');
      });
    const box = await directory
      .find({ tenant, box: await directory.idOf(tenant, from.box) })
      .catch((error: unknown) => {
        throw hasCode(error, 'not_found') ? refusal('/from/box', 'is not a box') : error;
      });
    const template = catalog.of(box);
    if (!template || box.endedAt) throw refusal('/from/box', 'is not a living box');
    if (from.variables && box.state === 'hibernated')
      throw refusal('/from/variables', 'cannot be kept, because the box hibernates and has lost its variables');
    from.box = box.id;
    const { limits, network, idleSeconds } = box;
    return { ...template, limits, network, idleSeconds };
  };

  /** Returns a version of a template, by its number or id. */
  const find = async (tenant: string, name: string, version: number | string): Promise<VersionRow> => {
    const row = await store.templates.findVersion(tenant, name, version);
    if (!row) throw new CodeBoxError('not_found', 'There is no such version of a template.');
    return row;
  };

  return {
    find,

    /**
     * Begins to build the next version of a template. Throws `invalid_request` for what the deployment or the template below it does not
     * allow, `conflict` for the name of a configured template or too many builds, `quota_exceeded` for too many templates or warm instances.
     */
    async begin(tenant: string, name: string, build: BuildPlan, id = newId('tv')): Promise<VersionRow> {
      if (!namePattern.test(name))
        throw refusal(
          '/path/template',
          'must be lower-case letters, digits and -, and begin with one of the first two',
        );
      if (catalog.list().some((template) => template.name === name))
        throw new CodeBoxError('conflict', `The template ${name} is one of the operator's.`);
      const source = await sourceOf(tenant, build);
      const { capabilities } = driver;
      const network = build.network ?? source.network;
      requireNetwork(capabilities, network);
      if (build.buildNetwork) requireNetwork(capabilities, build.buildNetwork);
      requireLimits(capabilities, build.limits, source.limits);
      checkInlineFiles(build.files ?? [], build.buildNetwork ?? network);
      const settings = {
        base: baseOf(source),
        limits: resolveLimits(source, build.limits),
        network,
        idleSeconds: build.idleSeconds ?? source.idleSeconds,
        maxLifetimeSeconds: build.maxLifetimeSeconds ?? source.maxLifetimeSeconds,
        warm: build.warm,
      };
      const ids = { template: newId('tpl'), version: id };
      const asked = { settings, build: vault.close(sealed, JSON.stringify(build)) };
      const by = { tenant, name, gatewayId: gateway, site: driver.site };
      return await builder.begin(ids.version, tenant, () => store.templates.begin(ids, by, asked, bounds));
    },

    async versions(tenant: string, name: string, query: PageQuery) {
      const page = await store.templates.versions(tenant, name, query);
      if (!page) throw new CodeBoxError('not_found', 'There is no such template.');
      return page;
    },

    async delete(tenant: string, name: string): Promise<void> {
      if (await store.templates.delete(tenant, name)) return;
      throw new CodeBoxError('not_found', 'There is no such template.');
    },

    /** Yields the log of a build after an entry, then live, up to its end. With `live` false it ends with what there is. */
    async *log(
      tenant: string,
      name: string,
      { number, after, live }: { number: number; after: number; live: boolean },
      signal?: AbortSignal,
    ): AsyncGenerator<BuildEvent> {
      for (let seq = after; ; ) {
        // The state is read first: the log of a build that is over is complete.
        const { id, state, cause } = await find(tenant, name, number);
        const entries = await store.builds.logAfter(id, seq, logPage);
        yield* entries;
        seq = entries.at(-1)?.seq ?? seq;
        if (entries.length > 0) continue;
        if (state !== 'building') return yield { seq: seq + 1, type: 'done', state, cause };
        if (!live) return;
        await sleep(pollMs, undefined, { signal });
      }
    },
  };
};

export type Builds = ReturnType<typeof createBuilds>;

const refusal = (pointer: string, detail: string) =>
  new CodeBoxError('invalid_request', `The template cannot be built: ${pointer} ${detail}.`, {
    errors: [{ pointer, detail }],
  });
