import { accepts } from 'hono/accepts';
import { z } from 'zod';
import { addDocs } from '../../../http/endpoints/docs.ts';
import { addProblemPages } from '../../../http/problems/pages.ts';
import type { Endpoints } from '../endpoint.ts';
import type { Metrics } from '../metrics/metrics.ts';
import { openApiDocument } from '../openapi.ts';

export interface SystemOptions {
  metrics: Metrics;
  /** Throws when no box could be created now; resolves with the parts that do not work otherwise, by name. */
  checkReady: () => Promise<Record<string, string>>;
  stopping: AbortSignal;
}

const tag = 'System';
const statusSchema = z.object({ status: z.literal('ok') }).meta({ id: 'Status' });

/** Requests that need a degraded part are refused with 503; all others are served. */
const readinessSchema = z
  .object({ status: z.literal('ok'), degraded: z.record(z.string(), z.string()).optional() })
  .meta({ id: 'Readiness' });

/** The paths that the root lists. */
const index = {
  name: 'CodeBox',
  docs: '/docs',
  openapi: '/openapi.json',
  problems: '/problems',
  health: '/healthz',
  ready: '/readyz',
  metrics: '/metrics',
};

/** Health, metrics, and the documentation of the API. None of them needs a key. */
export const addSystemRoutes = (endpoints: Endpoints, { metrics, checkReady, stopping }: SystemOptions): void => {
  const { add, app } = endpoints;
  add(
    {
      method: 'get',
      path: '/healthz',
      scope: 'public',
      summary: 'Check that the process is alive',
      tag,
      responses: { 200: { description: 'The process is alive.', schema: statusSchema } },
    },
    ({ c }) => c.json({ status: 'ok' }),
  );

  add(
    {
      method: 'get',
      path: '/readyz',
      scope: 'public',
      summary: 'Check that boxes can be created',
      tag,
      responses: {
        200: { description: 'Boxes can be created; `degraded` names what does not work.', schema: readinessSchema },
      },
    },
    async ({ c }) => {
      if (stopping.aborted) return c.json({ status: 'stopping' }, 503);
      const degraded = await checkReady();
      return c.json({ status: 'ok', ...(Object.keys(degraded).length > 0 && { degraded }) });
    },
  );

  app.get('/', (c) => {
    c.set('route', '/');
    c.header('Vary', 'Accept');
    const supports = ['application/json', 'text/html'];
    const type = accepts(c, { header: 'Accept', supports, default: 'application/json' });
    return type === 'text/html' ? c.redirect('/docs') : c.json(index);
  });

  app.get('/metrics', async (c) => {
    c.set('route', '/metrics');
    return c.body(await metrics.registry.metrics(), 200, { 'Content-Type': metrics.registry.contentType });
  });

  addProblemPages(app);
  addDocs(app, 'CodeBox API', () => openApiDocument(endpoints));
};
