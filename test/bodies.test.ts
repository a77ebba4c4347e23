import { afterAll, expect, test } from 'vitest';
import { z } from 'zod';
import { CodeBoxError } from '#contract';
import { type RouteParts as AgentParts, addRoutes as addAgentRoutes } from '../services/agent/http/app.ts';
import { createEndpoints as createAgentEndpoints } from '../services/agent/http/endpoints.ts';
import { addRoutes, type RouteParts } from '../services/gateway/http/app.ts';
import { createEndpoints } from '../services/gateway/http/endpoint.ts';
import type { KeyClaims } from '../services/gateway/http/idempotency/key-claims.ts';
import { longestTurn } from './longest-turn.ts';

/** How long a request may block all others. */
const mostMs = 200;
/** Just below the limits of a small and of a large body; a body beyond the limit of its route is refused unread. */
const sizes = [127 * 1024, 10 * 1024 * 1024 - 1024];
const maxQuery = 15 * 1024;

const codeOf = (error: unknown) => (error instanceof CodeBoxError ? error.code : 'handled');
// Routes use their parts only after they have validated the input, and only the validation is tested here.
const gateway = createEndpoints({
  claims: {} as KeyClaims,
  admit(c) {
    c.set('tenant', 'tenant');
    c.set('scopes', null);
  },
});
addRoutes(gateway, {} as RouteParts);
gateway.app.onError((error, c) => c.json(codeOf(error), 500));
const agent = createAgentEndpoints();
addAgentRoutes(agent, {} as AgentParts);
agent.app.onError((error, c) => c.json(codeOf(error), 500));

const run = (text: string, size: number) => text.repeat(Math.ceil(size / text.length)).slice(0, size);
const list = (item: string, size: number) => `[${run(`${item},`, size).replace(/,?[^,]*$/, '')}]`;
const keys = (size: number) => `{${Array.from({ length: size / 12 }, (_, n) => `"k${n}":"v"`).join()}}`;

const texts = ['a', ' ', '%41', '../', 'é', '=', 'a b\\n', 'https://', '@a', '1.'];
const values: Record<string, (size: number) => string> = {
  ...Object.fromEntries(texts.map((text) => [`a text of ${text}`, (size: number) => `"${run(text, size)}!"`])),
  'many texts': (size) => list('"a"', size),
  'many objects': (size) => list('{"a":1}', Math.min(size, 16_000)),
  'many keys': (size) => keys(Math.min(size, 24_000)),
  'too many keys': keys,
  'a deep list': (size) => '['.repeat(Math.min(size, 60)) + ']'.repeat(Math.min(size, 60)),
};

const shapeOf = (schema: unknown): string[] => {
  if (schema instanceof z.ZodObject) {
    const names = Object.keys(schema.shape);
    return names.length > 0 ? names : ['any'];
  }
  if (schema instanceof z.ZodUnion) return schema.options.flatMap(shapeOf);
  if (schema instanceof z.ZodPipe) return shapeOf(schema.in);
  return [];
};

interface Route {
  app: { request: (path: string, init: RequestInit) => Response | Promise<Response> };
  method: string;
  path: string;
  body: string[];
  query: string[];
}

const routesOf = ({ app, registry }: typeof gateway | typeof agent): Route[] =>
  registry.definitions.flatMap((definition) => {
    if (definition.type !== 'route') return [];
    const { method, path, request } = definition.route;
    const body = request?.body?.content['application/json'];
    return [
      { app, method, path, body: body && 'schema' in body ? shapeOf(body.schema) : [], query: shapeOf(request?.query) },
    ];
  });

const routes = [...routesOf(gateway), ...routesOf(agent)];
/** Only the ids of containers are parsed before a body is read. */
const pathOf = (path: string) => path.replace('{container}', `cntr_${'a'.repeat(26)}`).replaceAll(/\{\w+\}/g, 'a');

test('every route with a body or a query is tested', () => {
  const described = ({ registry }: typeof gateway | typeof agent, what: 'body' | 'query') =>
    registry.definitions.filter(
      (one) =>
        one.type === 'route' &&
        (what === 'query' ? one.route.request?.query : one.route.request?.body?.content['application/json']),
    ).length;
  for (const what of ['body', 'query'] as const)
    expect(routes.filter((route) => route[what].length > 0).length).toBe(
      described(gateway, what) + described(agent, what),
    );
});

/** Records and returns how a request is refused: for its content, never for its credentials. */
const send = async ({ app, method, path }: Route, search: string, body?: Buffer): Promise<string> => {
  const headers = { 'content-length': `${body?.length}`, 'content-type': 'application/json' };
  const sent = body && { body: new Uint8Array(body), headers };
  const init = { method: method.toUpperCase(), ...sent };
  const response = await app.request(`${pathOf(path)}${search}`, init);
  const code = response.status === 500 ? String(await response.json()) : 'handled';
  codes.add(code);
  return code;
};
const codes = new Set<string>();
afterAll(() => {
  expect([...codes].sort()).toEqual(['handled', 'invalid_request', 'too_large']);
});

const named = (all: Route[]) => all.map((route) => [`${route.method.toUpperCase()} ${route.path}`, route] as const);
const withBody = named(routes.filter(({ body }) => body.length > 0));
const withQuery = named(routes.filter(({ query }) => query.length > 0));

test.each(withBody)('no body of %s blocks other requests', async (_, route) => {
  for (const size of sizes) {
    let code = '';
    const blank = Buffer.alloc(size, ' ');
    const refuse = async () => {
      code = await send(route, '', blank);
    };
    const ms = await longestTurn(refuse, { enoughMs: mostMs });
    expect({ size, ms: ms < mostMs || ms }).toEqual({ size, ms: true });
    // The content of a body that is refused unread does not matter.
    if (code === 'too_large') continue;
    for (const [what, make] of Object.entries(values)) {
      const value = make(size / route.body.length - 64);
      const body = Buffer.from(`{${route.body.map((key) => `"${key}":${value}`).join()}}`);
      const ms = await longestTurn(() => send(route, '', body), { enoughMs: mostMs });
      expect({ what, size, ms: ms < mostMs || ms }).toEqual({ what, size, ms: true });
    }
  }
});

test.each(withQuery)('no query of %s blocks other requests', async (_, route) => {
  for (const text of texts) {
    const value = encodeURIComponent(run(text, maxQuery / 3 / route.query.length));
    const search = `?${route.query.map((key) => `${key}=${value}`).join('&')}`;
    const ms = await longestTurn(() => send(route, search), { enoughMs: mostMs });
    expect({ text, ms: ms < mostMs || ms }).toEqual({ text, ms: true });
  }
});
