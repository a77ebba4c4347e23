import { z } from 'zod';
import { CodeBoxError, type CreateBox, plainText, queryInteger } from '#contract';
import { openAiPage } from '../../../openai/page.ts';
import type { BoxRow } from '../../boxes/life/directory.ts';
import type { RouteParts } from '../../http/app.ts';
import type { Endpoints } from '../../http/endpoint.ts';

const described = { tag: 'Containers', responses: {} };
const params = z.object({ box: z.string() });
const idPattern = /^cntr_([a-z2-7]{26})$/;
const defaultMinutes = 20;
/** A field without a counterpart here. It is refused rather than ignored, because callers rely on its effect. */
const none = z.array(z.unknown()).max(0, 'is not supported').nullish();

/** The values of `memory_limit`, in MiB. */
const memories = { '1g': 1024, '4g': 4096, '16g': 16_384, '64g': 65_536 } as const;
const memoryNames = ['1g', '4g', '16g', '64g'] as const;

const newContainerSchema = z.object({
  name: plainText().min(1).max(512),
  expires_after: z
    .object({ anchor: z.literal('last_active_at'), minutes: z.int().min(1).max(1440) })
    .default({ anchor: 'last_active_at', minutes: defaultMinutes }),
  memory_limit: z.enum(memoryNames).nullish(),
  network_policy: z
    .object({ type: z.literal('disabled', { error: 'must be disabled: lists of domains are not supported' }) })
    .nullish(),
  file_ids: none,
  skills: none,
});

const listSchema = z.object({
  limit: queryInteger().min(1).max(100).default(20),
  order: z.enum(['asc', 'desc']).default('desc'),
  after: z.string().max(64).optional(),
  name: plainText().min(1).max(512).optional(),
});

/** The id of a container is that of its box with the prefix of OpenAI's. */
export const toContainerId = (box: string): string => box.replace(/^box-/, 'cntr_');

/** Returns the box of a container; undefined for text that cannot be the id of one. */
export const toBoxId = (container: string): string | undefined => {
  const [, id] = idPattern.exec(container) ?? [];
  return id === undefined ? undefined : `box-${id}`;
};

export const seconds = (time: Date): number => Math.floor(time.getTime() / 1000);

const toCreateBox = (ask: z.output<typeof newContainerSchema>): CreateBox => ({
  metadata: { name: ask.name },
  idleSeconds: ask.expires_after.minutes * 60,
  onIdle: 'delete',
  ...(ask.memory_limit && { limits: { memoryMb: memories[ask.memory_limit] } }),
  // Otherwise the network is that of the template, because its operator may permit one.
  ...(ask.network_policy && { network: 'none' as const }),
});

/** Converts a box to a container. Memory is rounded up to one of OpenAI's sizes. */
const toContainer = (row: BoxRow) => ({
  id: toContainerId(row.id),
  object: 'container' as const,
  created_at: seconds(row.createdAt),
  status: row.endedAt === null ? ('running' as const) : ('expired' as const),
  name: row.metadata.name ?? row.id,
  expires_after: { anchor: 'last_active_at' as const, minutes: Math.ceil(row.idleSeconds / 60) },
  last_active_at: seconds(row.lastActiveAt),
  memory_limit: memoryNames.find((name) => memories[name] >= row.limits.memoryMb) ?? '64g',
  ...(row.network === 'none' && { network_policy: { type: 'disabled' as const } }),
});

const noContainer = () => new CodeBoxError('not_found', 'There is no such container.');

/** Creates, lists, reads and deletes containers. All boxes of the tenant are containers, whichever API created them. */
export const addContainerRoutes = (
  { add }: Endpoints,
  { creation, directory, endings }: Pick<RouteParts, 'creation' | 'directory' | 'endings'>,
): void => {
  add(
    {
      ...described,
      method: 'post',
      path: '/v1/containers',
      scope: 'boxes:write',
      summary: 'Create a container',
      body: newContainerSchema,
    },
    async ({ c, tenant, body }) => c.json(toContainer((await creation.create(tenant, toCreateBox(body))).box)),
  );

  add(
    {
      ...described,
      method: 'get',
      path: '/v1/containers',
      scope: 'boxes:read',
      summary: 'List containers',
      query: listSchema,
    },
    async ({ c, tenant, query: { limit, order, after, name } }) => {
      const box = after === undefined ? undefined : toBoxId(after);
      if (after !== undefined && box === undefined) throw noContainer();
      const metadata = name === undefined ? undefined : { name };
      const { items, nextCursor } = await directory.list(tenant, { limit, order, after: box, metadata });
      const data = items.map(toContainer);
      return c.json(openAiPage(data, nextCursor !== null));
    },
  );

  add(
    {
      ...described,
      method: 'get',
      path: '/v1/containers/{box}',
      scope: 'boxes:read',
      summary: 'Read a container',
      params,
    },
    async ({ c, tenant, params: { box } }) => {
      const row = await directory.find({ tenant, box });
      if (row.cause?.code === 'deleted') throw noContainer();
      return c.json(toContainer(row));
    },
  );

  add(
    {
      ...described,
      method: 'delete',
      path: '/v1/containers/{box}',
      scope: 'boxes:write',
      summary: 'Delete a container',
      params,
    },
    async ({ c, tenant, params: { box } }) => {
      const row = await directory.find({ tenant, box });
      if (row.endedAt !== null) throw noContainer();
      await endings.delete({ tenant, box });
      return c.json({ id: toContainerId(box), object: 'container.deleted', deleted: true });
    },
  );
};
