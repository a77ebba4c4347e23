import { accepts } from 'hono/accepts';
import { z } from 'zod';
import { addDocs } from '../../../http/docs.ts';
import { addProblemPages } from '../../../http/problem-pages.ts';
import type { Endpoints } from '../endpoint.ts';
import type { Metrics } from '../metrics/metrics.ts';
import { openApiDocument } from '../openapi.ts';

export interface SystemOptions {
  metrics: Metrics;
  /** Throws when a box could not be had now; answers what else does not work, by its name. */
  checkReady: () => Promise<Record<string, string>>;
  stopping: AbortSignal;
}

const tag = 'System';
const statusSchema = z.object({ status: z.literal('ok') }).meta({ id: 'Status' });

/** Requests for what is degraded are refused with 503; all others are served. */
const readinessSchema = z
  .object({ status: z.literal('ok'), degraded: z.record(z.string(), z.string()).optional() })
  .meta({ id: 'Readiness' });

/** Where to go from the root. */
const index = {
  name: 'CodeBox',
  docs: '/docs',
  openapi: '/openapi.json',
  problems: '/problems',
  health: '/healthz',
  ready: '/readyz',
  metrics: '/metrics',
};

/** Health, metrics, and the API's own description. None of them needs a key. */
export const addSystemRoutes = (endpoints: Endpoints, { metrics, checkReady, stopping }: SystemOptions): void => {
  const { add, app } = endpoints;
  add(
    {
      method: 'get',
      path: '/healthz',
      scope: 'public',
      summary: 'The process is alive',
      tag,
      responses: { 200: { description: 'It is.', schema: statusSchema } },
    },
    ({ c }) => c.json({ status: 'ok' }),
  );

  add(
    {
      method: 'get',
      path: '/readyz',
      scope: 'public',
      summary: 'A box can be had',
      tag,
      responses: { 200: { description: 'It can; `degraded` names what does not work.', schema: readinessSchema } },
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
