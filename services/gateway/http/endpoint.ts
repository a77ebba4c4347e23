import { createHash } from 'node:crypto';
import { OpenAPIRegistry } from '@asteasolutions/zod-to-openapi';
import { type Context, Hono } from 'hono';
import { z } from 'zod';
import { problemSchema } from '#contract';
import { readJsonBody } from './body.ts';
import type { Env } from './env.ts';
import { faulty, toFaults } from './fault.ts';
import { answerOnce } from './idempotency.ts';
import type { KeyClaims } from './key-claims.ts';
import { requireScope, scopeOf } from './scopes.ts';
import { wording } from './wording.ts';

/** One response of an endpoint, for the OpenAPI document: JSON by default. */
export interface ResponseSpec {
  description: string;
  schema?: z.ZodType;
  types?: Record<string, z.ZodType>;
}

export interface EndpointSpec<P extends z.ZodType, Q extends z.ZodType, B extends z.ZodType> {
  method: 'get' | 'post' | 'put' | 'patch' | 'delete' | 'head';
  /** With parameters in braces; `{path}` takes the rest of the path, slashes too. */
  path: string;
  summary: string;
  tag: string;
  params?: P;
  query?: Q;
  body?: B;
  /** Bodies that are not JSON, for the OpenAPI document only: the handler reads them. */
  rawBody?: Record<string, z.ZodType>;
  responses: Record<number, ResponseSpec>;
  /**
   * Takes an Idempotency-Key. `replay` answers again for something that was started and can be read at `location`;
   * `keepsAnswer` keeps the whole answer too, for as long as keys are kept; `onlyAbandoned` and `cameToNothing` are for what is
   * not joined while it is made.
   */
  idempotent?:
    | true
    | {
        replay: (input: Input<z.output<P>, z.output<Q>, z.output<B>>, location: string) => Promise<Response>;
        keepsAnswer?: true;
        onlyAbandoned?: true;
        cameToNothing?: (tenant: string, location: string) => Promise<boolean>;
      };
  isPublic?: true;
  /** Takes the operator's key. All others that are not public take an API key with the scope that `scopes.ts` names. */
  isAdmin?: true;
}

export interface Input<P, Q, B> {
  c: Context<Env>;
  tenant: string;
  params: P;
  query: Q;
  body: B;
}

const noInput = z.strictObject({});
const idempotencyKeySchema = z.string().min(1).max(255);

/** The routes of the gateway: each is checked, documented and served from one description. */
export const createEndpoints = (claims: KeyClaims) => {
  const app = new Hono<Env>();
  const registry = new OpenAPIRegistry();
  const known: { method: string; pattern: RegExp }[] = [];

  const document = <P extends z.ZodType, Q extends z.ZodType, B extends z.ZodType>(
    spec: EndpointSpec<P, Q, B>,
  ): void => {
    const content = spec.body ? { 'application/json': { schema: spec.body } } : {};
    const raw = Object.fromEntries(Object.entries(spec.rawBody ?? {}).map(([type, schema]) => [type, { schema }]));
    const hasBody = spec.body !== undefined || spec.rawBody !== undefined;
    registry.registerPath({
      method: spec.method,
      path: spec.path,
      summary: spec.summary,
      tags: [spec.tag],
      security: securityOf(spec),
      request: {
        ...(spec.params && { params: spec.params as unknown as z.ZodObject }),
        ...(spec.query && { query: spec.query as unknown as z.ZodObject }),
        ...(spec.idempotent && { headers: z.object({ 'Idempotency-Key': idempotencyKeySchema.optional() }) }),
        ...(hasBody && { body: { content: { ...content, ...raw } } }),
      },
      responses: { ...Object.fromEntries(Object.entries(spec.responses).map(toResponse)), default: problemDoc },
    });
  };

  return {
    app,
    registry,

    /** Only describes an endpoint, for what is served otherwise. */
    document,

    /** Serves one endpoint: path, query and body are checked against their schemas, then the handler runs. */
    add<
      P extends z.ZodType = typeof noInput,
      Q extends z.ZodType = typeof noInput,
      B extends z.ZodType = typeof noInput,
    >(
      spec: EndpointSpec<P, Q, B>,
      handler: (input: Input<z.output<P>, z.output<Q>, z.output<B>>) => Response | Promise<Response>,
    ): void {
      document(spec);
      known.push({ method: spec.method.toUpperCase(), pattern: toPattern(spec.path) });
      const scope = spec.isPublic || spec.isAdmin ? undefined : scopeOf(spec.method, spec.path);
      app.on(spec.method.toUpperCase(), toRoute(spec.path), async (c) => {
        c.set('route', spec.path);
        if (scope) requireScope(c, scope);
        const params = checkInput(spec.params ?? noInput, spec.params ? readParams(c) : {}, '/path') as z.output<P>;
        const query = checkInput(spec.query ?? noInput, readQuery(c), '/query') as z.output<Q>;
        const read = spec.body ? await readJsonBody(c) : { value: {}, bytes: new Uint8Array() };
        const body = checkInput(spec.body ?? noInput, read.value, '') as z.output<B>;
        const input = { c, tenant: c.get('tenant'), params, query, body };
        const answer = async () => handler(input);
        const key = spec.idempotent ? c.req.header('idempotency-key') : undefined;
        if (key === undefined) return await answer();
        checkInput(idempotencyKeySchema, key, '/headers/Idempotency-Key');
        const hash = createHash('sha256').update(`${c.req.method} ${c.req.path}\n`).update(read.bytes).digest('hex');
        const again = typeof spec.idempotent === 'object' ? spec.idempotent : undefined;
        const replay = again && {
          join: (_: Context<Env>, location: string) => again.replay(input, location),
          keepsAnswer: again.keepsAnswer ?? false,
          onlyAbandoned: again.onlyAbandoned ?? false,
          cameToNothing: async (at: string) => (await again.cameToNothing?.(input.tenant, at)) ?? false,
        };
        return await answerOnce({ c, claims, key, hash, answer, replay });
      });
    },

    /** The methods that a path has, for 405. */
    methodsOf: (path: string): string[] =>
      known.filter(({ pattern }) => pattern.test(path)).map(({ method }) => method),
  };
};

export type Endpoints = ReturnType<typeof createEndpoints>;

/** The keys that let a request in, for the OpenAPI document, by the names of `openapi.ts`. */
const securityOf = ({
  method,
  path,
  isPublic,
  isAdmin,
}: Pick<EndpointSpec<z.ZodType, z.ZodType, z.ZodType>, 'method' | 'path' | 'isPublic' | 'isAdmin'>) => {
  if (isPublic) return [];
  if (isAdmin) return [{ adminKey: [] }];
  const scope = scopeOf(method, path);
  return [{ apiKey: [scope] }, { apiKeyHeader: [scope] }];
};

const problemDoc = {
  description: 'What went wrong.',
  content: { 'application/problem+json': { schema: problemSchema } },
};

const toResponse = ([status, response]: [string, ResponseSpec]) => {
  const types = response.types ?? (response.schema ? { 'application/json': response.schema } : {});
  const content = Object.fromEntries(Object.entries(types).map(([type, schema]) => [type, { schema }]));
  return [status, { description: response.description, ...(Object.keys(content).length > 0 && { content }) }];
};

/** A `:` inside a segment, as in `files:watch`, would begin a parameter; as the pattern of one it stands for itself. */
const toRoute = (path: string) =>
  path
    .replace(/[^/{}]+:([^/{}]+)/, ':method{$&}')
    .replace('{path}', ':path{.*}')
    .replaceAll(/\{(\w+)\}/g, ':$1');
const toPattern = (path: string) => new RegExp(`^${path.replace('{path}', '.*').replaceAll(/\{\w+\}/g, '[^/]+')}$`);

const readQuery = (c: Context<Env>): Record<string, string> => {
  const query = Object.entries(c.req.queries()).map(([name, [value = '', ...more]]) => {
    if (more.length > 0) throw faulty([{ pointer: `/query/${name}`, detail: 'is given more than once' }]);
    return [name, value] as const;
  });
  // Not by assignment, which would lose a parameter of the name `__proto__`.
  return Object.fromEntries(query);
};

const idPattern = /^[A-Za-z0-9_-]{1,64}$/;
/** Stands for every text that cannot be an id: nothing has it, so looking it up gives the 404 of a missing one. */
const nobody = '-';

/**
 * Path parameters: ids, of which one that cannot be one becomes an id that nothing has; the rest of the path after a folder
 * is taken from the raw URL and decoded once.
 */
const readParams = (c: Context<Env>): Record<string, string> => {
  const given = Object.entries(c.req.param() as Record<string, string>).filter(([name]) => name !== 'method');
  const params = Object.fromEntries(given.map(([name, value]) => [name, idPattern.test(value) ? value : nobody]));
  if (!('path' in params)) return params;
  const raw = (c.env?.incoming?.url ?? c.req.path).split('?', 1)[0] ?? '';
  const encoded = /^\/v1\/boxes\/[^/]+\/files\/(.*)$/s.exec(raw)?.[1] ?? '';
  try {
    params.path = decodeURIComponent(encoded);
  } catch (cause) {
    throw faulty([{ pointer: '/path/path', detail: 'is not valid percent-encoded UTF-8' }], cause);
  }
  return params;
};

/** What a schema makes of a value; throws `invalid_request` with pointers below `root`. */
export const checkInput = <S extends z.ZodType>(schema: S, value: unknown, root: string): z.output<S> => {
  const parsed = schema.safeParse(value, { error: wording });
  if (parsed.success) return parsed.data;
  throw faulty(parsed.error.issues.flatMap((issue) => toFaults(issue, root)));
};
