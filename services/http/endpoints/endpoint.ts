import type { IncomingMessage } from 'node:http';
import { OpenAPIRegistry, type ResponseConfig } from '@asteasolutions/zod-to-openapi';
import { type Context, Hono } from 'hono';
import { z } from 'zod';
import { decodePath } from '#contract';
import type { JsonBounds } from '../../json/json-bounds.ts';
import { readJsonBody, readTextBody } from '../bodies/body.ts';
import { codeTypes, languageOfType } from '../bodies/code-types.ts';
import type { HttpEnv } from '../env.ts';
import { faulty, toFaults } from '../faults/fault.ts';
import { wording } from '../faults/wording.ts';
import { createKnownRoutes } from './known-routes.ts';

/** One response of an endpoint, for the OpenAPI document: JSON by default. */
export interface ResponseSpec {
  description: string;
  schema?: z.ZodType;
  types?: Record<string, z.ZodType>;
  /** Descriptions of its headers. */
  headers?: Record<string, string>;
}

export interface EndpointSpec<P extends z.ZodType, Q extends z.ZodType, B extends z.ZodType> {
  method: 'get' | 'post' | 'put' | 'patch' | 'delete' | 'head';
  /** With parameters in braces; `{path}` takes the rest of the path, slashes too. */
  path: string;
  summary: string;
  tag: string;
  params?: P;
  /** Whether a request is for this endpoint; others are passed on to the next one with such a path. */
  isFor?: (c: { req: { path: string } }) => boolean;
  query?: Q;
  body?: B;
  /**
   * Set when the body may also be plain code, with a Content-Type such as `text/x-python`, which stands for the body's `code` and
   * `language`. This is the schema of the query, which then has the other keys of the body.
   */
  codeQuery?: z.ZodObject;
  /** Limits of the JSON body; by default those of a body without code and files. */
  bounds?: JsonBounds;
  /** Bodies that are not JSON, for the OpenAPI document only: the handler reads them. */
  rawBody?: Record<string, z.ZodType>;
  responses: Record<number, ResponseSpec>;
  /** The response to refused requests, for the OpenAPI document; problem+json by default. */
  refusal?: ResponseSpec;
}

/** The requirements of an endpoint besides valid input. */
export interface Admission<E extends HttpEnv> {
  /** For the OpenAPI document: any one of these is sufficient. */
  security: Record<string, string[]>[];
  /** Its request headers, for the OpenAPI document. */
  headers?: z.ZodObject;
  /** Throws to refuse a request, before any of its body is read. */
  admit?: (c: Context<E>) => void | Promise<void>;
}

export interface Input<E extends HttpEnv, P, Q, B> {
  c: Context<E>;
  params: P;
  query: Q;
  body: B;
  /** The JSON body as it was received; for a body of code, the JSON body that it stands for. */
  bytes: Uint8Array;
}

/** An endpoint whose handler reads query and body by itself. */
export type RawSpec<P extends z.ZodType> = Omit<
  EndpointSpec<P, z.ZodType, z.ZodType>,
  'query' | 'body' | 'codeQuery' | 'bounds'
>;

export interface RawInput<E extends HttpEnv, P> {
  c: Context<E>;
  params: P;
  /** Node's own request, with unread query and body. */
  incoming: IncomingMessage;
}

const noInput = z.strictObject({});
const codeAdvice =
  "`jq -n --rawfile code FILE '{$code}'` writes code as JSON; with a Content-Type such as text/x-python the body is the code itself";
const codeSchema = z
  .string()
  .meta({ description: 'The code itself, in UTF-8. Code in any other language NAME of the box is `text/x-NAME`.' });

/** Routes that share a document, and suggestions for unknown paths. */
export const createBook = () => {
  const registry = new OpenAPIRegistry();
  // The generator of the document adds the schema itself.
  const problem = registry.registerComponent('responses', 'Problem', {
    description: 'What went wrong.',
    content: { 'application/problem+json': { schema: { $ref: '#/components/schemas/Problem' } } },
  });
  return { registry, problem, routes: createKnownRoutes() };
};

export type Book = ReturnType<typeof createBook>;

export interface EndpointsOptions<E extends HttpEnv> {
  app?: Hono<E>;
  book?: Book;
  /** Whether a request is for these routes; others are passed on to the next routes with the same path. */
  isOwn?: (c: Context<E>) => boolean;
  /** The id that a path parameter stands for, once the caller is admitted; undefined for text that stands for none. */
  readId?: ReadId<E>;
}

type ReadId<E extends HttpEnv> = (
  c: Context<E>,
  name: string,
  text: string,
) => string | undefined | Promise<string | undefined>;

/** The routes of a server: one description of each is its check, its documentation and its handler's types. */
export const createEndpoints = <E extends HttpEnv>({
  app = new Hono<E>(),
  book = createBook(),
  isOwn = () => true,
  readId = (_c, _name, text) => text,
}: EndpointsOptions<E> = {}) => {
  const { registry, problem, routes } = book;

  const document = <P extends z.ZodType, Q extends z.ZodType, B extends z.ZodType>(
    spec: EndpointSpec<P, Q, B>,
    { security, headers }: Pick<Admission<E>, 'security' | 'headers'>,
  ): void => {
    const content = spec.body ? { 'application/json': { schema: spec.body } } : {};
    const code = spec.codeQuery ? Object.fromEntries(codeTypes.map((type) => [type, codeSchema])) : {};
    const rawBody = Object.entries({ ...code, ...spec.rawBody });
    const raw = Object.fromEntries(rawBody.map(([type, schema]) => [type, { schema }]));
    const refusal = spec.refusal ? toResponse(spec.refusal) : problem.ref;
    const hasBody = spec.body !== undefined || spec.rawBody !== undefined;
    const responses = Object.entries(spec.responses).map(([status, response]) => [status, toResponse(response)]);
    registry.registerPath({
      method: spec.method,
      path: spec.path,
      summary: spec.summary,
      tags: [spec.tag],
      security,
      request: {
        ...(spec.params && { params: spec.params as unknown as z.ZodObject }),
        ...((spec.query ?? spec.codeQuery) && { query: (spec.query ?? spec.codeQuery) as unknown as z.ZodObject }),
        ...(headers && { headers }),
        ...(hasBody && { body: { content: { ...content, ...raw } } }),
      },
      responses: { ...Object.fromEntries(responses), default: refusal },
    });
  };

  /** Serves an endpoint: admits the caller and checks the path, then calls `handle`. */
  const serve = <P extends z.ZodType>(
    spec: RawSpec<P>,
    { admit }: Admission<E>,
    handle: (c: Context<E>, params: z.output<P>) => Response | Promise<Response>,
  ): void => {
    routes.add(spec.method, spec.path);
    const restOf = toRest(spec.path);
    app.on(spec.method.toUpperCase(), toRoute(spec.path), async (c, next) => {
      if (!isOwn(c) || spec.isFor?.(c) === false) return await next();
      c.set('route', spec.path);
      await admit?.(c);
      const given = spec.params ? await readParams(c, spec.params, restOf, readId) : {};
      return await handle(c, checkInput(spec.params ?? noInput, given, '/path') as z.output<P>);
    });
  };

  return {
    app,
    registry,
    routes,

    /** Only documents an endpoint that is served by other means. */
    document,

    /** Serves one endpoint: path, query and body are checked against their schemas, then the handler runs. */
    add<
      P extends z.ZodType = typeof noInput,
      Q extends z.ZodType = typeof noInput,
      B extends z.ZodType = typeof noInput,
    >(
      spec: EndpointSpec<P, Q, B>,
      admission: Admission<E>,
      handler: (input: Input<E, z.output<P>, z.output<Q>, z.output<B>>) => Response | Promise<Response>,
    ): void {
      document(spec, admission);
      serve(spec, admission, async (c, params) => {
        const language = spec.codeQuery && languageOfType(c.req.header('content-type'));
        const givenQuery = readQuery(c);
        if (language === undefined && spec.codeQuery) refuseCodeQuery(spec.codeQuery, givenQuery);
        const querySchema = (language !== undefined && spec.codeQuery) || spec.query || noInput;
        const query = checkInput(querySchema, givenQuery, '/query') as z.output<Q>;
        const { value, bytes } = spec.body
          ? await (language === undefined
              ? readJsonBody(c, spec.bounds, spec.codeQuery && codeAdvice)
              : readCode(c, spec.bounds, language, query))
          : { value: {}, bytes: new Uint8Array() };
        const body = checkInput(spec.body ?? noInput, value, '') as z.output<B>;
        return await handler({ c, params, query, body, bytes });
      });
    },

    /** Serves one endpoint whose handler receives the raw request: only the path is checked. */
    addRaw<P extends z.ZodType = typeof noInput>(
      spec: RawSpec<P>,
      admission: Admission<E>,
      handler: (input: RawInput<E, z.output<P>>) => Response | Promise<Response>,
    ): void {
      document(spec, admission);
      serve(spec, admission, async (c, params) => {
        const { incoming } = c.env ?? {};
        if (!incoming) throw new Error(`${spec.path} is served from a socket only`);
        return await handler({ c, params, incoming });
      });
    },
  };
};

/** Converts a body of code and its query to the JSON body that they stand for. With a context the language is left out. */
const readCode = async <E extends HttpEnv>(
  c: Context<E>,
  bounds: JsonBounds | undefined,
  language: string,
  query: unknown,
) => {
  const code = await readTextBody(c, bounds);
  const named = { ...(query as Record<string, unknown>) };
  const value = { code, ...(named.context === undefined && { language }), ...named };
  return { value, bytes: Buffer.from(JSON.stringify(value)) };
};

const refuseCodeQuery = (schema: z.ZodObject, query: Record<string, string>): void => {
  const detail =
    'is a key of the JSON body; it is a query parameter only if the body is code, with Content-Type: text/x-python for example';
  const misplaced = Object.keys(query).filter((name) => Object.hasOwn(schema.shape, name));
  if (misplaced.length > 0) throw faulty(misplaced.map((name) => ({ pointer: `/query/${name}`, detail })));
};

const toResponse = (response: ResponseSpec): ResponseConfig => {
  const types = response.types ?? (response.schema ? { 'application/json': response.schema } : {});
  const content = Object.fromEntries(Object.entries(types).map(([type, schema]) => [type, { schema }]));
  const headers = Object.entries(response.headers ?? {}).map(([name, description]) => [
    name,
    { description, schema: { type: 'string' } },
  ]);
  return {
    description: response.description,
    ...(headers.length > 0 && { headers: Object.fromEntries(headers) }),
    ...(Object.keys(content).length > 0 && { content }),
  };
};

/** A `:` inside a segment, as in `files:watch`, would begin a parameter; as a pattern it matches itself. */
const toRoute = (path: string) =>
  path
    .replace(/[^/{}]+:([^/{}]+)/, ':method{$&}')
    .replace('{path}', ':path{[^]*}')
    .replaceAll(/\{(\w+)\}/g, ':$1');
/** A pattern that finds, in a raw URL, the part that `{path}` stands for. */
const toRest = (path: string): RegExp | undefined => {
  const [before, after] = path.split('{path}');
  return after === undefined ? undefined : new RegExp(`^${before?.replaceAll(/\{\w+\}/g, '[^/]+')}(.*)$`, 's');
};

const readQuery = <E extends HttpEnv>(c: Context<E>): Record<string, string> => {
  const query = Object.entries(c.req.queries()).map(([name, [value = '', ...more]]) => {
    if (more.length > 0) throw faulty([{ pointer: `/query/${name}`, detail: 'is given more than once' }]);
    return [name, value] as const;
  });
  // Not by assignment, which would lose a parameter of the name `__proto__`.
  return Object.fromEntries(query);
};

const idPattern = /^[A-Za-z0-9_-]+$/;
const maxIdLength = 64;
/** Replaces every text that cannot be an id: nothing has this id, so looking it up results in the same 404 as a missing one. */
const nobody = '-';

/** Returns the length up to which text can be the id of this name: ids are short, unless the schema of a route says more. */
const longestOf = (schema: z.ZodType, name: string): number => {
  const field = schema instanceof z.ZodObject ? schema.shape[name] : undefined;
  return (field instanceof z.ZodString && field.maxLength) || maxIdLength;
};

/**
 * The path parameters: text that cannot be an id becomes `nobody`; `{path}` is taken from the raw URL and decoded once.
 */
const readParams = async <E extends HttpEnv>(
  c: Context<E>,
  schema: z.ZodType,
  restOf: RegExp | undefined,
  readId: ReadId<E>,
): Promise<Record<string, string>> => {
  const given = Object.entries(c.req.param() as Record<string, string>).filter(([name]) => name !== 'method');
  const params: Record<string, string> = {};
  for (const [name, text] of given) {
    const id = (await readId(c, name, text)) ?? nobody;
    params[name] = idPattern.test(id) && id.length <= longestOf(schema, name) ? id : nobody;
  }
  if (restOf === undefined) return params;
  // A request target may be an absolute URL.
  const raw = (c.env?.incoming?.url ?? c.req.path).replace(/^https?:\/\/[^/?#]*/i, '').split('?', 1)[0] ?? '';
  const encoded = restOf.exec(raw)?.[1] ?? '';
  try {
    params.path = decodePath(encoded);
  } catch (cause) {
    throw faulty(
      [{ pointer: '/path/path', detail: 'is not percent-encoded: % stands before two hexadecimal digits' }],
      cause,
    );
  }
  return params;
};

/** Parses a value by a schema; throws `invalid_request` with pointers below `root`. */
export const checkInput = <S extends z.ZodType>(schema: S, value: unknown, root: string): z.output<S> => {
  const parsed = schema.safeParse(value, { error: wording });
  if (parsed.success) return parsed.data;
  throw faulty(toFaults(schema, parsed.error.issues, root));
};
