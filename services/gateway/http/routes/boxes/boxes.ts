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
  volumesFolder,
} from '#contract';
import { largeJson } from '../../../../json/json-bounds.ts';
import type { BoxRef } from '../../../boxes/box-ref.ts';
import type { Continuity, Creation } from '../../../boxes/creation/creation.ts';
import type { Directory } from '../../../boxes/life/directory.ts';
import type { Endings } from '../../../boxes/life/endings.ts';
import type { Rest } from '../../../boxes/rest/rest.ts';
import type { BoxRow } from '../../../store/box/boxes.ts';
import { requireScope } from '../../admission/admission.ts';
import type { Endpoints } from '../../endpoint.ts';
import type { Env } from '../../env.ts';
import { locationOf } from '../../idempotency/location.ts';

/** The path of one box. */
export const boxParams = z.strictObject({
  box: z.string().max(321).meta({ description: 'The id of the box, or `user:name`.' }),
});

const tag = 'Boxes';

const referenceTo = (id: string) => ({ kind: 'box', id }) as const;

export interface BoxParts {
  directory: Directory;
  creation: Creation;
  endings: Endings;
  rest: Rest;
}

/** `/v1/boxes`. */
export const addBoxRoutes = (endpoints: Endpoints, { directory, creation, endings, rest }: BoxParts): void => {
  const { add } = endpoints;
  addRestRoutes(endpoints, rest);
  /** Responds to a repeated request whose first response was never sent, because its gateway died while it created the box. */
  const createdBefore = async (c: Context<Env>, ref: BoxRef): Promise<Response> => {
    const box = await directory.find(ref);
    if (box.state === 'creating' || box.state === 'failed')
      throw new CodeBoxError('unavailable', 'The creation of the box was interrupted; try again.', {
        retryAfterSeconds: 1,
      });
    c.header('Location', locationOf(referenceTo(box.id)));
    return c.json(toBox(box, 'new'), 201);
  };

  add(
    {
      method: 'post',
      path: '/v1/boxes',
      scope: 'boxes:write',
      summary: "Create a box, or get the user's existing one",
      tag,
      body: createBoxSchema,
      bounds: largeJson,
      idempotent: {
        replay: ({ c, tenant }, { id }) => createdBefore(c, { tenant, box: id }),
        storesResponse: true,
        onlyAbandoned: true,
        leftNothing: async ({ tenant }, { id }) => (await directory.find({ tenant, box: id })).state === 'failed',
      },
      responses: {
        201: { description: 'A new box, ready.', schema: boxSchema },
        200: { description: "The user's existing box.", schema: boxSchema },
      },
    },
    async ({ c, tenant, body }) => {
      // Initial packages and files need the same scopes as adding them later.
      if (body.packages?.length) requireScope(c, 'run');
      if (body.files?.length) requireScope(c, 'files');
      const progress = c.get('progress');
      const onAccepted = progress && (({ id }: BoxRow) => progress.mayStart(referenceTo(id)));
      const { box, continuity } = await creation.create(tenant, body, { onAccepted }).catch((error: unknown) => {
        // A box whose creation failed has ended already.
        progress?.isUndone();
        throw error;
      });
      c.header('Location', locationOf(referenceTo(box.id)));
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
      const { state, metadata, ...filter } = query;
      const page = await directory.list(tenant, {
        ...filter,
        ...(state && { states: [state] }),
        ...(metadata !== undefined && { metadata: Object.fromEntries([toPair(metadata)]) }),
      });
      return c.json({ items: page.items.map((box) => toBox(box)), nextCursor: page.nextCursor });
    },
  );

  add(
    {
      method: 'get',
      path: '/v1/boxes/{box}',
      scope: 'boxes:read',
      summary: 'Read a box, even one that has ended',
      tag,
      params: boxParams,
      responses: { 200: { description: 'The box.', schema: boxSchema } },
    },
    async ({ c, tenant, params }) => c.json(toBox(await directory.find({ tenant, box: params.box }))),
  );

  add(
    {
      method: 'patch',
      path: '/v1/boxes/{box}',
      scope: 'boxes:write',
      summary: 'Change the metadata, the times and the idle action of a box',
      tag,
      params: boxParams,
      body: updateBoxSchema,
      responses: { 200: { description: 'The box.', schema: boxSchema } },
    },
    async ({ c, tenant, params: { box }, body }) => {
      const { network, ...change } = body;
      directory.checkUpdate(body);
      if (network !== undefined) await rest.connect({ tenant, box }, network);
      return c.json(toBox(await directory.update({ tenant, box }, change)));
    },
  );

  add(
    {
      method: 'delete',
      path: '/v1/boxes/{box}',
      scope: 'boxes:write',
      summary: 'Delete a box with its files; deleting it again has no effect',
      tag,
      params: boxParams,
      responses: { 204: { description: 'The box and its files are deleted.' } },
    },
    async ({ c, tenant, params }) => {
      await endings.delete({ tenant, box: params.box });
      return c.body(null, 204);
    },
  );

  add(
    {
      method: 'post',
      path: '/v1/boxes/{box}/keepalive',
      scope: 'boxes:write',
      summary: 'Restart the idle time of a box',
      tag,
      params: boxParams,
      responses: { 200: { description: 'The box.', schema: boxSchema } },
    },
    async ({ c, tenant, params }) => c.json(toBox(await directory.keepalive({ tenant, box: params.box }))),
  );
};

/** The routes that put a box to rest and bring it back. */
const addRestRoutes = ({ add }: Endpoints, rest: Rest): void => {
  const calls = {
    pause: 'Freeze a box with its variables; any use resumes it',
    resume: 'Resume a box that is paused or hibernated',
    hibernate: 'Save the files of a box and end its instance; any use restores the files',
    checkpoint: 'Save the files of a box, in case its instance is lost',
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

/** Splits `key=value`. */
const toPair = (text: string): [key: string, value: string] => {
  const at = text.indexOf('=');
  return [text.slice(0, at), text.slice(at + 1)];
};

const continuityOf = ({ endedAt, restoredAt }: BoxRow): Continuity => {
  if (endedAt) return 'lost';
  return restoredAt ? 'restored' : 'reused';
};

/** Converts a box to JSON field by field, so that no detail of the host is revealed. */
const toBox = (row: BoxRow, continuity?: Continuity): Box => ({
  id: row.id,
  state: row.state,
  ...(row.cause && { cause: row.cause }),
  template: row.template,
  user: row.userId,
  name: row.name,
  metadata: row.metadata,
  limits: row.limits,
  network: row.network,
  volumes: row.volumes.map(({ id, name, folder, readOnly }) => ({
    volume: id,
    name,
    path: `${volumesFolder}/${folder}`,
    readOnly,
  })),
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
