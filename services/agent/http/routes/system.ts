import { z } from 'zod';
import { type AgentInfo, agentInfoSchema } from '#contract';
import { addDocs } from '../../../http/endpoints/docs.ts';
import { addProblemPages } from '../../../http/problems/pages.ts';
import type { Endpoints } from '../endpoints.ts';
import type { Metrics } from '../metrics.ts';
import { openApiDocument } from '../openapi.ts';

export interface SystemParts {
  metrics: Metrics;
  /** Throws when chats are not available now. */
  checkReady: () => Promise<void>;
  info: () => Promise<AgentInfo>;
  stopping: AbortSignal;
}

const tag = 'System';
const statusSchema = z.object({ status: z.literal('ok') }).meta({ id: 'Status' });

/** Health, metrics, and the API's own description. None of these endpoints needs a key. */
export const addSystemRoutes = (endpoints: Endpoints, { metrics, checkReady, info, stopping }: SystemParts): void => {
  const { add, app } = endpoints;
  add(
    {
      method: 'get',
      path: '/healthz',
      summary: 'The process is alive',
      tag,
      isPublic: true,
      responses: { 200: { description: 'It is.', schema: statusSchema } },
    },
    ({ c }) => c.json({ status: 'ok' }),
  );

  add(
    {
      method: 'get',
      path: '/readyz',
      summary: 'Chats are available: the database and the gateway respond',
      tag,
      isPublic: true,
      responses: { 200: { description: 'They can.', schema: statusSchema } },
    },
    async ({ c }) => {
      if (stopping.aborted) return c.json({ status: 'stopping' }, 503);
      await checkReady();
      return c.json({ status: 'ok' });
    },
  );

  add(
    {
      method: 'get',
      path: '/v1/info',
      summary: 'Read what a page needs to know first',
      tag,
      isPublic: true,
      responses: {
        200: { description: 'Whether a key is needed, and whether a model is configured.', schema: agentInfoSchema },
      },
    },
    async ({ c }) => c.json(await info()),
  );

  app.get('/metrics', async (c) => {
    c.set('route', '/metrics');
    return c.body(await metrics.registry.metrics(), 200, { 'Content-Type': metrics.registry.contentType });
  });

  addProblemPages(app);
  addDocs(app, 'CodeBox agent API', () => openApiDocument(endpoints));
};
