import type { IncomingMessage } from 'node:http';
import { OpenAPIRegistry, type ResponseConfig } from '@asteasolutions/zod-to-openapi';
import { type Context, Hono } from 'hono';
import { z } from 'zod';
import { decodePath } from '#contract';
import type { JsonBounds } from '../json/json-bounds.ts';
import { readJsonBody, readTextBody } from './body.ts';
import { codeTypes, languageOfType } from './code-body.ts';
import type { HttpEnv } from './env.ts';
import { faulty, toFaults } from './fault.ts';
import { createKnownRoutes } from './known-routes.ts';
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
  /**
   * Takes code as it stands in a file too, by a Content-Type such as `text/x-python`: the body's `code` and `language`. These are its
   * other keys that are then given in the query.
   */
  codeQuery?: z.ZodObject;
  /** Of the JSON body; that of a body without code and files unless given. */
  bounds?: JsonBounds;
  /** Bodies that are not JSON, for the OpenAPI document only: the handler reads them. */
  rawBody?: Record<string, z.ZodType>;
  responses: Record<number, ResponseSpec>;
  /** What every refusal is, for the OpenAPI document: problem+json unless said. */
  refusal?: ResponseSpec;
}

/** What an endpoint asks of its callers besides its input. */
export interface Admission<E extends HttpEnv> {
  /** For the OpenAPI document: any one of these lets a request in. */
  security: Record<string, string[]>[];
  /** Headers that it takes, for the OpenAPI document. */
  headers?: z.ZodObject;
  /** Refuses by throwing, before anything of the request is read. */
  admit?: (c: Context<E>) => void | Promise<void>;
}

export interface Input<E extends HttpEnv, P, Q, B> {
  c: Context<E>;
  params: P;
  query: Q;
  body: B;
  /** The JSON body as it came, or as it stands for a body of code. */
  bytes: Uint8Array;
}

/** An endpoint that reads query and body by itself. */
export type RawSpec<P extends z.ZodType> = Omit<
  EndpointSpec<P, z.ZodType, z.ZodType>,
  'query' | 'body' | 'codeQuery' | 'bounds'
>;

export interface RawInput<E extends HttpEnv, P> {
  c: Context<E>;
  params: P;
  /** The request as Node has it: its query is unread, and so is its body. */
  incoming: IncomingMessage;
}

const noInput = z.strictObject({});
const codeAdvice =
  "`jq -n --rawfile code FILE '{$code}'` writes code as JSON; with a Content-Type such as text/x-python the body is the code itself";
const codeSchema = z.string().meta({ description: 'The code itself, in UTF-8.' });

/** Routes that are documented together, and suggested together for a path that leads nowhere. */
export const createBook = () => {
  const registry = new OpenAPIRegistry();
  // The schema itself is added by whoever makes the document.
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
  /** Whether a request is for these routes; every other one is passed on to the next routes with its path. */
  isOwn?: (c: Context<E>) => boolean;
  /** The id that a path parameter stands for; undefined for text that stands for none. */
  readId?: (name: string, text: string) => string | undefined;
}

/** The routes of a server: each is checked, documented and served from one description. */
export const createEndpoints = <E extends HttpEnv>({
  app = new Hono<E>(),
  book = createBook(),
  isOwn = () => true,
  readId = (_, text) => text,
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
    const answers = Object.entries(spec.responses).map(([status, answer]) => [status, toResponse(answer)]);
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
      responses: { ...Object.fromEntries(answers), default: refusal },
    });
  };

  /** Serves an endpoint by what is made of its request once its caller is let in and its path is checked. */
  const serve = <P extends z.ZodType>(
    spec: RawSpec<P>,
    { admit }: Admission<E>,
    handle: (c: Context<E>, params: z.output<P>) => Response | Promise<Response>,
  ): void => {
    routes.add(spec.method, spec.path);
    const restOf = toRest(spec.path);
    app.on(spec.method.toUpperCase(), toRoute(spec.path), async (c, next) => {
      if (!isOwn(c)) return await next();
      c.set('route', spec.path);
      await admit?.(c);
      const given = spec.params ? readParams(c, restOf, readId) : {};
      return await handle(c, checkInput(spec.params ?? noInput, given, '/path') as z.output<P>);
    });
  };

  return {
    app,
    registry,
    routes,

    /** Only describes an endpoint, for what is served otherwise. */
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

    /** Serves one endpoint whose handler gets the request as it came: only its path is checked. */
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

/** A body of code with what its query says, as the JSON body that it stands for. A context has its own language. */
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
    'is a key of the JSON body; in the query it stands beside a body of code, as Content-Type: text/x-python says';
  const misplaced = Object.keys(query).filter((name) => Object.hasOwn(schema.shape, name));
  if (misplaced.length > 0) throw faulty(misplaced.map((name) => ({ pointer: `/query/${name}`, detail })));
};

const toResponse = (response: ResponseSpec): ResponseConfig => {
  const types = response.types ?? (response.schema ? { 'application/json': response.schema } : {});
  const content = Object.fromEntries(Object.entries(types).map(([type, schema]) => [type, { schema }]));
  return { description: response.description, ...(Object.keys(content).length > 0 && { content }) };
};

/** A `:` inside a segment, as in `files:watch`, would begin a parameter; as the pattern of one it stands for itself. */
const toRoute = (path: string) =>
  path
    .replace(/[^/{}]+:([^/{}]+)/, ':method{$&}')
    .replace('{path}', ':path{[^]*}')
    .replaceAll(/\{(\w+)\}/g, ':$1');
/** What finds, in a raw URL, the part that `{path}` stands for. */
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

const idPattern = /^[A-Za-z0-9_-]{1,64}$/;
/** Stands for every text that cannot be an id: nothing has it, so looking it up gives the 404 of a missing one. */
const nobody = '-';

/**
 * Path parameters: ids, of which one that cannot be one becomes an id that nothing has; the rest of the path after a folder
 * is taken from the raw URL and decoded once.
 */
const readParams = <E extends HttpEnv>(
  c: Context<E>,
  restOf: RegExp | undefined,
  readId: (name: string, text: string) => string | undefined,
): Record<string, string> => {
  const given = Object.entries(c.req.param() as Record<string, string>).filter(([name]) => name !== 'method');
  const toId = (name: string, text: string) => {
    const id = readId(name, text) ?? nobody;
    return idPattern.test(id) ? id : nobody;
  };
  const params = Object.fromEntries(given.map(([name, text]) => [name, toId(name, text)]));
  if (restOf === undefined) return params;
  const raw = (c.env?.incoming?.url ?? c.req.path).split('?', 1)[0] ?? '';
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

/** What a schema makes of a value; throws `invalid_request` with pointers below `root`. */
export const checkInput = <S extends z.ZodType>(schema: S, value: unknown, root: string): z.output<S> => {
  const parsed = schema.safeParse(value, { error: wording });
  if (parsed.success) return parsed.data;
  throw faulty(toFaults(schema, parsed.error.issues, root));
};
