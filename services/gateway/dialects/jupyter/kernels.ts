import { posix } from 'node:path';
import { Readable } from 'node:stream';
import type { Context } from 'hono';
import type { ContentfulStatusCode } from 'hono/utils/http-status';
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
/** A session of the Jupyter server in the box, whose names of kernels are languages. */
const sessionOfBox = z.looseObject({
  path: z.string(),
  kernel: z.looseObject({ name: z.string().transform((language) => kindOf(language)) }).nullish(),
});
const sessionsOfBox = z.array(sessionOfBox).max(1000);

/** The names that notebooks have for kernels, where that is not the language. */
const kinds: Record<string, string> = { python: 'python3' };
const kindOf = (language: string): string => kinds[language] ?? language;

const titles: Record<string, string> = {
  python: 'Python 3 (ipykernel)',
  javascript: 'JavaScript',
  typescript: 'TypeScript',
};

const toModel = ({ id, language, lastActivityAt, state }: Kernel, shownId = id) => ({
  id: shownId,
  name: kindOf(language),
  last_activity: lastActivityAt,
  execution_state: state,
  connections: 0,
});

const toSpec = (language: string) => {
  const display_name = titles[language] ?? `${language[0]?.toUpperCase()}${language.slice(1)}`;
  const metadata = { debugger: false };
  const kernel_protocol_version = '5.5';
  const spec = {
    argv: [],
    env: {},
    display_name,
    language,
    interrupt_mode: 'signal',
    kernel_protocol_version,
    metadata,
  };
  return { name: kindOf(language), spec, resources: {} };
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
      const kernelspecs = Object.fromEntries(known.map((language) => [kindOf(language), toSpec(language)]));
      const usual = known.includes('python') ? 'python' : known[0];
      return c.json({ default: usual && kindOf(usual), kernelspecs });
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
  const placeOf = (c: Context<Env>): string => {
    const id = c.req.param('session');
    return id === undefined ? 'sessions' : `sessions/${encodeURIComponent(id)}`;
  };

  for (const [path, schema] of [
    [sessions, sessionsOfBox],
    [session, sessionOfBox],
  ] as const)
    add({ ...described, method: 'get', path, summary: 'Read sessions' }, async ({ c, tenant }) => {
      const ref = await places.boxOf(c, tenant);
      const { value } = await jupyter.ask(ref, { method: 'GET', path: placeOf(c) }, schema as z.ZodType<object>);
      return c.json(value);
    });

  addRaw(
    { ...described, method: 'delete', path: session, summary: 'End a session and its kernel' },
    async ({ c, tenant }) => {
      const ref = await places.boxOf(c, tenant);
      return respondWith(c, await jupyter.request(ref, { method: 'DELETE', path: placeOf(c) }));
    },
  );

  for (const [method, path, summary] of [
    ['post', sessions, 'Start a session'],
    ['patch', session, 'Change a session'],
  ] as const)
    add({ ...described, method, path, summary, body: sessionSchema }, async ({ c, tenant, body }) => {
      const ref = await places.boxOf(c, tenant);
      const isKnown = async () => {
        const { value } = await jupyter.ask(ref, { method: 'GET', path: 'sessions' }, sessionsOfBox);
        return value.some((one) => one.path === body.path);
      };
      const startsKernel = method === 'post' ? !body.kernel?.id && !(await isKnown()) : body.kernel && !body.kernel.id;
      // Kernels are started by the gateway, so that they count.
      const started = startsKernel
        ? await places.startKernel(c, tenant, body.kernel?.name ?? undefined, posix.dirname(body.path ?? '/'))
        : undefined;
      const asked = started ? { ...body, kernel: { id: started.id, name: started.kernel.language } } : body;
      const content = Readable.from([Buffer.from(JSON.stringify(asked))]);
      const request = { method: method === 'post' ? 'POST' : 'PATCH', path: placeOf(c), body: content } as const;
      const { status, value } = await jupyter.ask(ref, request, sessionOfBox);
      return c.json(value, status as ContentfulStatusCode);
    });
};
