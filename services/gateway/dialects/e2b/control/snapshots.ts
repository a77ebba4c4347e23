import { z } from 'zod';
import { CodeBoxError, type CreateBox, maxLifetimeSeconds } from '#contract';
import { problemKinds } from '../../../../http/problems/kinds.ts';
import { asCodeBoxError } from '../../../../http/problems/problem.ts';
import { type BoxRef, refOf } from '../../../boxes/box-ref.ts';
import type { BoxRow } from '../../../boxes/life/directory.ts';
import type { RouteParts } from '../../../http/app.ts';
import type { Endpoints } from '../../../http/endpoint.ts';
import { toBoxId, toSandboxId } from '../address.ts';
import { messageOf } from '../errors.ts';
import { type AccessOptions, toSandbox } from './access.ts';
import { asked, isSnapshot, namesOf, ofSnapshot, readAsked, toTemplate } from './marks.ts';
import { lifeOf, timeoutSchema } from './new-sandbox.ts';
import { requireSandbox, toEnvironment } from './sandbox.ts';

const described = { tag: 'Snapshots', responses: {} };
const params = z.object({ box: z.string() });
const nameSchema = z.string().min(1).max(64);
/** The number of copies that are made at once. */
const copiesAtOnce = 4;
/** The timeout of a fork whose request has none. */
const defaultSeconds = 300;

const toSnapshot = (row: BoxRow) => ({ snapshotID: toSandboxId(row.id), names: namesOf(row) });

/** Returns what a copy of a box has in common with it. */
export const copyOf = (row: BoxRow): Pick<CreateBox, 'template' | 'limits' | 'network'> => ({
  template: row.template,
  limits: row.limits,
  network: row.network,
});

/** Finds the snapshot that the name of a template stands for: its id, or the name of the newest one that has it. */
export const createFindSnapshot =
  ({ catalog, directory }: Pick<RouteParts, 'catalog' | 'directory'>) =>
  async (tenant: string, name: string): Promise<BoxRow | undefined> => {
    if (catalog.list().some((template) => template.name === toTemplate(name))) return undefined;
    const byId = await directory.find({ tenant, box: toBoxId(name) ?? '' }).catch(() => undefined);
    if (byId && byId.endedAt === null && isSnapshot(byId)) return byId;
    const found = await directory.list(tenant, { limit: 1, states: ['hibernated'], metadata: ofSnapshot({ name }) });
    return found.items[0];
  };

/**
 * Copies of sandboxes with their files and variables of their environment, but without their memory. A snapshot is a copy that hibernates,
 * and a fork is one that runs.
 */
export const addSnapshotRoutes = (
  { add }: Endpoints,
  {
    builds,
    catalog,
    creation,
    directory,
    endings,
    rest,
  }: Pick<RouteParts, 'builds' | 'catalog' | 'creation' | 'directory' | 'endings' | 'rest'>,
  options: AccessOptions,
): void => {
  const findSnapshot = createFindSnapshot({ catalog, directory });
  const save = async (ref: BoxRef): Promise<BoxRow> => {
    requireSandbox(await directory.find(ref));
    return await rest.checkpoint(ref);
  };
  const copy = async (from: BoxRow, ask: CreateBox): Promise<BoxRow> =>
    (await creation.create(from.tenantId, { ...copyOf(from), ...ask }, { from, envOf: toEnvironment })).box;

  add(
    {
      ...described,
      method: 'post',
      path: '/sandboxes/{box}/snapshots',
      scope: 'boxes:write',
      summary: 'Make a snapshot of a sandbox',
      params,
      body: z.object({ name: nameSchema.nullish() }),
    },
    async ({ c, tenant, params: { box }, body: { name } }) => {
      const from = await save({ tenant, box });
      const made = await copy(from, {
        metadata: {
          ...asked(readAsked(from).template),
          ...ofSnapshot({ source: toSandboxId(box), name: name ?? undefined }),
        },
        onIdle: 'hibernate',
        maxLifetimeSeconds,
      });
      const kept = await rest.hibernate(refOf(made)).catch(async (error: unknown) => {
        await endings.delete(refOf(made));
        throw error;
      });
      return c.json(toSnapshot(kept), 201);
    },
  );

  add(
    {
      ...described,
      method: 'get',
      path: '/snapshots',
      scope: 'boxes:read',
      summary: 'List snapshots',
      query: z.object({
        sandboxID: z.string().max(64).optional(),
        name: nameSchema.optional(),
        limit: z.coerce.number().int().min(1).max(100).default(100),
        nextToken: z.string().max(1024).optional(),
      }),
    },
    async ({ c, tenant, query: { sandboxID: source, name, limit, nextToken: cursor } }) => {
      const metadata = ofSnapshot({ source, name });
      const { items, nextCursor } = await directory.list(tenant, { limit, cursor, states: ['hibernated'], metadata });
      if (nextCursor !== null) c.header('X-Next-Token', nextCursor);
      return c.json(items.map(toSnapshot));
    },
  );

  add(
    {
      ...described,
      method: 'delete',
      path: '/templates/{name}',
      scope: 'boxes:write',
      summary: 'Delete a snapshot or a template',
      params: z.object({ name: z.string() }),
    },
    async ({ c, tenant, params: { name } }) => {
      const template = await catalog.find(tenant, toTemplate(name));
      if (template && template.base === undefined)
        throw new CodeBoxError('method_not_allowed', 'Templates of the gateway cannot be deleted.');
      const found = template ? undefined : await findSnapshot(tenant, name);
      if (found) await endings.delete(refOf(found));
      else await builds.delete(tenant, name);
      return c.body(null, 204);
    },
  );

  add(
    {
      ...described,
      method: 'post',
      path: '/sandboxes/{box}/fork',
      scope: 'boxes:write',
      summary: 'Create sandboxes with the files of another one',
      params,
      body: z.object({ timeout: timeoutSchema.nullish(), count: z.int().min(1).max(100).default(1) }),
    },
    async ({ c, tenant, params: { box }, body: { timeout, count } }) => {
      const from = await save({ tenant, box });
      const metadata = { ...readAsked(from).metadata, ...asked(readAsked(from).template) };
      const forked = async () =>
        await copy(from, { metadata, ...lifeOf({ seconds: timeout ?? defaultSeconds }) }).then(
          (row) => ({ sandbox: toSandbox(c, row, options) }),
          (thrown: unknown) => ({ error: toFailure(thrown) }),
        );
      const forks: Awaited<ReturnType<typeof forked>>[] = [];
      while (forks.length < count) {
        const some = Math.min(copiesAtOnce, count - forks.length);
        forks.push(...(await Promise.all(Array.from({ length: some }, forked))));
      }
      return c.json(forks, 201);
    },
  );
};

const toFailure = (thrown: unknown) => {
  const error = asCodeBoxError(thrown);
  return { code: problemKinds[error.code].status, message: messageOf(error) };
};
