import { readFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { accepts } from 'hono/accepts';
import { z } from 'zod';
import type { Endpoints } from '../endpoint.ts';
import type { Metrics } from '../metrics.ts';
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

/** The page's own files; nothing is loaded from elsewhere. */
const pageFiles: Record<string, string> = {
  'swagger-ui.css': 'text/css',
  'swagger-ui-bundle.js': 'text/javascript',
};

const docsPage = `<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>CodeBox API</title>
<link rel="icon" href="data:,"><link rel="stylesheet" href="/docs/swagger-ui.css"></head>
<body><div id="ui"></div><script src="/docs/swagger-ui-bundle.js"></script><script src="/docs/start.js"></script></body>
</html>
`;
const docsScript = `SwaggerUIBundle({ url: '/openapi.json', dom_id: '#ui', deepLinking: true, tryItOutEnabled: true });\n`;
const docsPolicy = "default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; frame-ancestors 'none'";

/** Where to go from the root. */
const index = {
  name: 'CodeBox',
  docs: '/docs',
  openapi: '/openapi.json',
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
      summary: 'A box can be had',
      tag,
      isPublic: true,
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

  let document: string | undefined;
  app.get('/openapi.json', (c) => {
    c.set('route', '/openapi.json');
    document ??= JSON.stringify(openApiDocument(endpoints));
    return c.body(document, 200, { 'Content-Type': 'application/json' });
  });

  app.get('/docs', (c) => {
    c.header('Content-Security-Policy', docsPolicy);
    return c.html(docsPage);
  });
  app.get('/docs/start.js', (c) => c.body(docsScript, 200, { 'Content-Type': 'text/javascript' }));
  const folder = dirname(createRequire(import.meta.url).resolve('swagger-ui-dist/package.json'));
  for (const [name, type] of Object.entries(pageFiles)) {
    app.get(`/docs/${name}`, async (c) => c.body(await readFile(join(folder, name)), 200, { 'Content-Type': type }));
  }
};
