import { readFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import type { Hono } from 'hono';
import type { HttpEnv } from '../env.ts';

/** The page's own files; nothing is loaded from elsewhere. */
const pageFiles: Record<string, string> = {
  'swagger-ui.css': 'text/css',
  'swagger-ui-bundle.js': 'text/javascript',
};

const page = (title: string) => `<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>${title}</title>
<link rel="icon" href="data:,"><link rel="stylesheet" href="/docs/swagger-ui.css"></head>
<body><div id="ui"></div><script src="/docs/swagger-ui-bundle.js"></script><script src="/docs/start.js"></script></body>
</html>
`;
const script = `SwaggerUIBundle({ url: '/openapi.json', dom_id: '#ui', deepLinking: true, tryItOutEnabled: true });\n`;
const policy = "default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; frame-ancestors 'none'";

/** Adds `/openapi.json`, and a page at `/docs` on which every call can be tried. `describe` is called once. */
export const addDocs = <E extends HttpEnv>(app: Hono<E>, title: string, describe: () => object): void => {
  let document: string | undefined;
  app.get('/openapi.json', (c) => {
    c.set('route', '/openapi.json');
    document ??= JSON.stringify(describe());
    return c.body(document, 200, { 'Content-Type': 'application/json' });
  });

  app.get('/docs', (c) => {
    c.header('Content-Security-Policy', policy);
    return c.html(page(title));
  });
  app.get('/docs/start.js', (c) => c.body(script, 200, { 'Content-Type': 'text/javascript' }));
  const folder = dirname(createRequire(import.meta.url).resolve('swagger-ui-dist/package.json'));
  for (const [name, type] of Object.entries(pageFiles)) {
    app.get(`/docs/${name}`, async (c) => c.body(await readFile(join(folder, name)), 200, { 'Content-Type': type }));
  }
};
