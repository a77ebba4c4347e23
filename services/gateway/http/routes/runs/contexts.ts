import { z } from 'zod';
import { contextPageSchema, contextSchema, createContextSchema, pageQuerySchema, variablePageSchema } from '#contract';
import { largeJson } from '../../../../json/json-bounds.ts';
import type { Contexts } from '../../../boxes/runs/contexts.ts';
import type { Endpoints } from '../../endpoint.ts';
import { boxParams } from '../boxes/boxes.ts';

const params = boxParams.extend({ context: z.string().max(64) });
const tag = 'Contexts';

/** `/v1/boxes/{box}/contexts`: the live kernels of a box. */
export const addContextRoutes = ({ add }: Endpoints, contexts: Contexts): void => {
  add(
    {
      method: 'get',
      path: '/v1/boxes/{box}/contexts',
      scope: 'boxes:read',
      summary: 'List contexts',
      tag,
      params: boxParams,
      responses: { 200: { description: 'All contexts of the box.', schema: contextPageSchema } },
    },
    async ({ c, tenant, params }) =>
      c.json({ items: await contexts.list({ tenant, box: params.box }), nextCursor: null }),
  );

  add(
    {
      method: 'post',
      path: '/v1/boxes/{box}/contexts',
      scope: 'run',
      summary: 'Create a context with its own kernel',
      tag,
      params: boxParams,
      body: createContextSchema,
      bounds: largeJson,
      idempotent: true,
      responses: { 201: { description: 'The context.', schema: contextSchema } },
    },
    async ({ c, tenant, params, body }) => {
      await c.get('progress')?.mayStart();
      return c.json(await contexts.create({ tenant, box: params.box }, body), 201);
    },
  );

  add(
    {
      method: 'delete',
      path: '/v1/boxes/{box}/contexts/{context}',
      scope: 'run',
      summary: 'Delete a context; a run in progress ends as killed',
      tag,
      params,
      responses: { 204: { description: 'The context was deleted.' } },
    },
    async ({ c, tenant, params }) => {
      await contexts.delete({ tenant, box: params.box }, params.context);
      return c.body(null, 204);
    },
  );

  add(
    {
      method: 'post',
      path: '/v1/boxes/{box}/contexts/{context}/restart',
      scope: 'run',
      summary: 'Restart the kernel of a context, under the same id',
      tag,
      params,
      responses: { 200: { description: 'The context.', schema: contextSchema } },
    },
    async ({ c, tenant, params }) => c.json(await contexts.restart({ tenant, box: params.box }, params.context)),
  );

  add(
    {
      method: 'get',
      path: '/v1/boxes/{box}/contexts/{context}/variables',
      scope: 'boxes:read',
      summary: 'List the variables of an idle context without running code in it',
      tag,
      params,
      query: pageQuerySchema,
      responses: {
        200: {
          description: 'A page of variables by name, without imported modules. 409 while code runs in the context.',
          schema: variablePageSchema,
        },
      },
    },
    async ({ c, tenant, params, query }) =>
      c.json(await contexts.variables({ tenant, box: params.box }, params.context, query)),
  );
};
