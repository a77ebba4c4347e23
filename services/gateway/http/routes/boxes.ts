import type { Context } from 'hono';
import { z } from 'zod';
import {
  type Box,
  boxPageSchema,
  boxQuerySchema,
  boxSchema,
  CodeBoxError,
  createBoxSchema,
  updateBoxSchema,
} from '#contract';
import { largeJson } from '../../../json/json-bounds.ts';
import type { BoxRef } from '../../boxes/box-ref.ts';
import type { Continuity, Lifecycle } from '../../boxes/life/lifecycle.ts';
import type { Rest } from '../../boxes/rest/rest.ts';
import type { BoxRow } from '../../store/box/boxes.ts';
import { requireScope } from '../admission/admission.ts';
import type { Endpoints } from '../endpoint.ts';
import type { Env } from '../env.ts';

/** The path of one box. */
export const boxParams = z.strictObject({ box: z.string().max(64) });

const tag = 'Boxes';

const locationOf = (id: string) => `/v1/boxes/${id}`;
const boxAt = (tenant: string, location: string): BoxRef => ({ tenant, box: location.split('/').at(-1) ?? '' });

/** `/v1/boxes`. */
export const addBoxRoutes = (endpoints: Endpoints, lifecycle: Lifecycle, rest: Rest): void => {
  const { add } = endpoints;
  addRestRoutes(endpoints, rest);
  /** The answer that is owed where nobody was left to give it when a box was made, or almost. */
  const createdBefore = async (c: Context<Env>, tenant: string, location: string): Promise<Response> => {
    const box = await lifecycle.find(boxAt(tenant, location));
    if (box.state === 'creating' || box.state === 'failed')
      throw new CodeBoxError('unavailable', 'The box was left before it was ready.', { retryAfterSeconds: 1 });
    c.header('Location', location);
    return c.json(toBox(box, 'new'), 201);
  };

  add(
    {
      method: 'post',
      path: '/v1/boxes',
      scope: 'boxes:write',
      summary: "Create a box, or get the user's one",
      tag,
      body: createBoxSchema,
      bounds: largeJson,
      idempotent: {
        replay: ({ c, tenant }, location) => createdBefore(c, tenant, location),
        keepsAnswer: true,
        onlyAbandoned: true,
        cameToNothing: async (tenant, location) => (await lifecycle.find(boxAt(tenant, location))).state === 'failed',
      },
      responses: {
        201: { description: 'A new box, ready.', schema: boxSchema },
        200: { description: "The user's box, as it was.", schema: boxSchema },
      },
    },
    async ({ c, tenant, body }) => {
      // What it begins with is no other way to what its key may not do.
      if (body.packages?.length) requireScope(c, 'run');
      if (body.files?.length) requireScope(c, 'files');
      const progress = c.get('progress');
      const onAccepted = progress && (({ id }: BoxRow) => progress.mayStart(locationOf(id)));
      const { box, continuity } = await lifecycle.create(tenant, body, onAccepted).catch((error: unknown) => {
        // A box that could not be made is ended.
        progress?.isUndone();
        throw error;
      });
      c.header('Location', locationOf(box.id));
      return c.json(toBox(box, continuity), continuity === 'new' ? 201 : 200);
    },
  );

  add(
    {
      method: 'get',
      path: '/v1/boxes',
      scope: 'boxes:read',
      summary: 'List boxes, the newest first',
      tag,
      query: boxQuerySchema,
      responses: { 200: { description: 'A page of boxes.', schema: boxPageSchema } },
    },
    async ({ c, tenant, query }) => {
      const page = await lifecycle.list(tenant, query);
      return c.json({ items: page.items.map((box) => toBox(box)), nextCursor: page.nextCursor });
    },
  );

  add(
    {
      method: 'get',
      path: '/v1/boxes/{box}',
      scope: 'boxes:read',
      summary: 'Read a box, also one that has ended',
      tag,
      params: boxParams,
      responses: { 200: { description: 'The box.', schema: boxSchema } },
    },
    async ({ c, tenant, params }) => c.json(toBox(await lifecycle.find({ tenant, box: params.box }))),
  );

  add(
    {
      method: 'patch',
      path: '/v1/boxes/{box}',
      scope: 'boxes:write',
      summary: 'Change metadata, times and what it does when idle',
      tag,
      params: boxParams,
      body: updateBoxSchema,
      responses: { 200: { description: 'The box.', schema: boxSchema } },
    },
    async ({ c, tenant, params, body }) => c.json(toBox(await lifecycle.update({ tenant, box: params.box }, body))),
  );

  add(
    {
      method: 'delete',
      path: '/v1/boxes/{box}',
      scope: 'boxes:write',
      summary: 'End a box with its files; deleting it again does nothing',
      tag,
      params: boxParams,
      responses: { 204: { description: 'Nothing is left of it.' } },
    },
    async ({ c, tenant, params }) => {
      await lifecycle.delete({ tenant, box: params.box });
      return c.body(null, 204);
    },
  );

  add(
    {
      method: 'post',
      path: '/v1/boxes/{box}/keepalive',
      scope: 'boxes:write',
      summary: 'Put off the idle end',
      tag,
      params: boxParams,
      responses: { 200: { description: 'The box.', schema: boxSchema } },
    },
    async ({ c, tenant, params }) => c.json(toBox(await lifecycle.keepalive({ tenant, box: params.box }))),
  );
};

/** What a box can be asked to do about its rest. */
const addRestRoutes = ({ add }: Endpoints, rest: Rest): void => {
  const calls = {
    pause: 'Freeze a box with its variables; any use brings it back',
    resume: 'Have a resting box ready again',
    hibernate: 'Put the files of a box aside and end what runs it; any use brings the files back',
    checkpoint: 'Put the files of a box aside, for the case that its instance is lost',
  };
  for (const [name, summary] of Object.entries(calls) as [keyof typeof calls, string][]) {
    add(
      {
        method: 'post',
        path: `/v1/boxes/{box}/${name}`,
        scope: 'boxes:write',
        summary,
        tag,
        params: boxParams,
        responses: { 200: { description: 'The box.', schema: boxSchema } },
      },
      async ({ c, tenant, params }) => c.json(toBox(await rest[name]({ tenant, box: params.box }))),
    );
  }
};

const continuityOf = ({ endedAt, restoredAt }: BoxRow): Continuity => {
  if (endedAt) return 'lost';
  return restoredAt ? 'restored' : 'reused';
};

/** A box as JSON, field by field, so that nothing of the host gets out. */
const toBox = (row: BoxRow, continuity?: Continuity): Box => ({
  id: row.id,
  state: row.state,
  ...(row.cause && { cause: row.cause }),
  template: row.template,
  user: row.userId,
  metadata: row.metadata,
  limits: row.limits,
  network: row.network,
  createdAt: row.createdAt.toISOString(),
  lastActiveAt: row.lastActiveAt.toISOString(),
  idleSeconds: row.idleSeconds,
  expiresAt: row.expiresAt.toISOString(),
  onIdle: row.onIdle,
  continuity: continuity ?? continuityOf(row),
  checkpoint: row.checkpointAt && { at: row.checkpointAt.toISOString(), sizeBytes: row.storageBytes },
  restoredAt: row.restoredAt?.toISOString() ?? null,
  startup: row.startupMs === null ? null : { kind: row.startupKind ?? 'cold', ms: row.startupMs },
});
