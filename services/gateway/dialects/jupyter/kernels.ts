import { posix } from 'node:path';
import { Readable } from 'node:stream';
import type { Context } from 'hono';
import { z } from 'zod';
import { CodeBoxError, type Context as Kernel, languageSchema } from '#contract';
import { findLanguage } from '../../boxes/supply/languages.ts';
import type { RouteParts } from '../../http/app.ts';
import type { Endpoints } from '../../http/endpoint.ts';
import type { Env } from '../../http/env.ts';
import type { Places } from './places.ts';
import { respondWith } from './responses.ts';

const described = { scope: 'run', tag: 'Jupyter', query: z.looseObject({}), responses: {} } as const;
const pathSchema = z.string().max(4096);
const kernelSchema = z.looseObject({ name: languageSchema.nullish(), path: pathSchema.nullish() });
const sessionSchema = z.looseObject({
  path: pathSchema.nullish(),
  kernel: z.looseObject({ id: z.string().max(64).nullish(), name: languageSchema.nullish() }).nullish(),
});
const sessionsSchema = z.array(z.looseObject({ path: z.string() })).max(1000);

const titles: Record<string, string> = { python: 'Python 3', javascript: 'JavaScript', typescript: 'TypeScript' };

const toModel = ({ id, language, lastActivityAt, state }: Kernel, shownId = id) => ({
  id: shownId,
  name: language,
  last_activity: lastActivityAt,
  execution_state: state,
  connections: 0,
});

const toSpec = (language: string) => {
  const display_name = titles[language] ?? `${language[0]?.toUpperCase()}${language.slice(1)}`;
  const spec = { argv: [], env: {}, display_name, language, interrupt_mode: 'signal', metadata: {} };
  return { name: language, spec, resources: {} };
};

/** `/jupyter/{name}/api`: kernels, their specs, and sessions, which are kernels of documents. */
export const addKernelRoutes = ({ add, addRaw }: Endpoints, parts: RouteParts, places: Places): void => {
  const { catalog, contexts, endings, jupyter } = parts;

  const languagesOf = async (c: Context<Env>, tenant: string): Promise<readonly string[]> =>
    places.isFresh(c)
      ? ((await catalog.languagesOf(catalog.choose())) ?? ['python'])
      : await contexts.languages(await places.boxOf(c, tenant));

  add(
    { ...described, method: 'get', path: '/jupyter/{name}/api/kernelspecs', summary: 'List the kinds of kernels' },
    async ({ c, tenant }) => {
      const known = await languagesOf(c, tenant);
      const kernelspecs = Object.fromEntries(known.map((language) => [language, toSpec(language)]));
      return c.json({ default: known.includes('python') ? 'python' : known[0], kernelspecs });
    },
  );

  add(
    {
      ...described,
      method: 'get',
      path: '/jupyter/{name}/api/kernelspecs/{kind}',
      summary: 'Read a kind of kernels',
      params: z.object({ kind: languageSchema }),
    },
    async ({ c, tenant, params: { kind } }) => {
      const language = findLanguage(await languagesOf(c, tenant), kind);
      if (language === undefined) throw new CodeBoxError('not_found', `Kernel spec ${kind} not found`);
      return c.json(toSpec(language));
    },
  );

  add(
    { ...described, method: 'get', path: '/jupyter/{name}/api/kernels', summary: 'List the kernels' },
    async ({ c, tenant }) => {
      const kernels = places.isFresh(c) ? [] : await contexts.list(await places.boxOf(c, tenant));
      return c.json(kernels.map((kernel) => toModel(kernel)));
    },
  );

  add(
    {
      ...described,
      method: 'post',
      path: '/jupyter/{name}/api/kernels',
      summary: 'Start a kernel',
      body: kernelSchema,
    },
    async ({ c, tenant, body }) => {
      const { kernel, id } = await places.startKernel(c, tenant, body.name ?? undefined, body.path ?? '');
      return c.json(toModel(kernel, id), 201);
    },
  );

  add(
    { ...described, method: 'get', path: '/jupyter/{name}/api/kernels/{kernel}', summary: 'Read a kernel' },
    async ({ c, tenant }) => {
      const { kernel, id } = await places.kernelOf(c, tenant);
      return c.json(toModel(kernel, id));
    },
  );

  add(
    { ...described, method: 'delete', path: '/jupyter/{name}/api/kernels/{kernel}', summary: 'End a kernel' },
    async ({ c, tenant }) => {
      const { ref, kernel } = await places.kernelOf(c, tenant);
      if (places.isFresh(c)) await endings.delete(ref);
      else await contexts.delete(ref, kernel.id);
      return c.body(null, 204);
    },
  );

  addRaw(
    {
      ...described,
      method: 'post',
      path: '/jupyter/{name}/api/kernels/{kernel}/interrupt',
      summary: 'Interrupt a kernel',
    },
    async ({ c, tenant }) => {
      const { ref, kernel } = await places.kernelOf(c, tenant);
      await contexts.interrupt(ref, kernel.id);
      return c.body(null, 204);
    },
  );

  addRaw(
    { ...described, method: 'post', path: '/jupyter/{name}/api/kernels/{kernel}/restart', summary: 'Restart a kernel' },
    async ({ c, tenant }) => {
      const { ref, kernel, id } = await places.kernelOf(c, tenant);
      return c.json(toModel(await contexts.restart(ref, kernel.id), id));
    },
  );

  const sessions = '/jupyter/{name}/api/sessions';
  const session = `${sessions}/{session}`;
  for (const [method, path] of [
    ['get', sessions],
    ['get', session],
    ['delete', session],
  ] as const)
    addRaw({ ...described, method, path, summary: `The request \`${method}\` for sessions` }, async ({ c, tenant }) => {
      const ref = await places.boxOf(c, tenant);
      const id = c.req.param('session');
      const found = id === undefined ? 'sessions' : `sessions/${encodeURIComponent(id)}`;
      return respondWith(c, await jupyter.request(ref, { method: method === 'get' ? 'GET' : 'DELETE', path: found }));
    });

  for (const [method, path] of [
    ['post', sessions],
    ['patch', session],
  ] as const)
    add(
      { ...described, method, path, summary: `The request \`${method}\` for sessions`, body: sessionSchema },
      async ({ c, tenant, body }) => {
        const ref = await places.boxOf(c, tenant);
        const isKnown = async () =>
          (await jupyter.read(ref, 'sessions', sessionsSchema)).some((one) => one.path === body.path);
        const startsKernel =
          method === 'post' ? !body.kernel?.id && !(await isKnown()) : body.kernel && !body.kernel.id;
        // Kernels are started by the gateway, so that they count.
        const started = startsKernel
          ? await places.startKernel(c, tenant, body.kernel?.name ?? undefined, posix.dirname(body.path ?? '/'))
          : undefined;
        const ask = started ? { ...body, kernel: { id: started.id, name: started.kernel.language } } : body;
        const id = c.req.param('session');
        const found = id === undefined ? 'sessions' : `sessions/${encodeURIComponent(id)}`;
        const content = Readable.from([Buffer.from(JSON.stringify(ask))]);
        const request = { method: method === 'post' ? 'POST' : 'PATCH', path: found, body: content } as const;
        return respondWith(c, await jupyter.request(ref, request));
      },
    );
};
