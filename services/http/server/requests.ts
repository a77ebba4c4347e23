import { randomUUID } from 'node:crypto';
import type { Context, MiddlewareHandler } from 'hono';
import type { Logger } from 'pino';
import { CodeBoxError } from '#contract';
import type { KnownRoutes } from '../endpoints/known-routes.ts';
import type { HttpEnv } from '../env.ts';
import { problemResponse } from '../problems/problem.ts';
import { isProbe } from './probe.ts';
import { sentStatus } from './status.ts';

const requestIdPattern = /^[\w.-]{1,128}$/;
const dotSegment = /(?:^|\/)(?:\.|%2e){1,2}(?:\/|$)/i;

/** Gives each request an id, the caller's own if valid, and logs a line when the response is sent. */
export const logRequests =
  <E extends HttpEnv>(log: Logger): MiddlewareHandler<E> =>
  async (c, next) => {
    const given = c.req.header('x-request-id') ?? '';
    const requestId = requestIdPattern.test(given) ? given : randomUUID();
    c.set('requestId', requestId);
    c.set('log', log.child({ requestId }));
    c.header('X-Request-Id', requestId);
    const startedAt = performance.now();
    await next();
    const ms = Math.round(performance.now() - startedAt);
    const level = isProbe(c.get('route')) && c.res.ok ? 'debug' : 'info';
    c.get('log')[level]({ method: c.req.method, route: c.get('route'), status: sentStatus(c), ms }, 'request');
  };

/** Refuses more than one Host header (RFC 9112, 3.2): a proxy in front may use a different one than this service. */
export const refuseManyHosts =
  <E extends HttpEnv>(): MiddlewareHandler<E> =>
  async (c, next) => {
    const raw = c.env?.incoming?.rawHeaders ?? [];
    // Names and values alternate.
    const hosts = raw.filter((text, at) => at % 2 === 0 && text.length === 4 && text.toLowerCase() === 'host');
    if (hosts.length <= 1) return await next();
    const detail = 'is given more than once';
    throw new CodeBoxError('invalid_request', `The header Host ${detail}.`, {
      errors: [{ pointer: '/headers/Host', detail }],
    });
  };

/** Refuses `.` and `..` in a path: the URL parser would resolve them, so that a file path would reach another route. */
export const refuseDotSegments =
  <E extends HttpEnv>(): MiddlewareHandler<E> =>
  async (c, next) => {
    const raw = c.env?.incoming?.url?.split('?', 1)[0] ?? '';
    if (!dotSegment.test(raw)) return await next();
    const detail = 'must not contain . or .. segments';
    throw new CodeBoxError('invalid_request', `The path ${detail}.`, { errors: [{ pointer: '/path', detail }] });
  };

const documented = ' All calls are described at /docs.';

/** 404 with a suggestion, or 405 with the methods of the path. `where` is the sentence that names their description. */
export const refuseUnknown =
  <E extends HttpEnv>(
    routes: Pick<KnownRoutes, 'methodsOf' | 'nearestTo'>,
    respond: (c: Context<E>, error: CodeBoxError) => Response = problemResponse,
    where = documented,
  ) =>
  (c: Context<E>): Response => {
    const { method, path } = c.req;
    const methods = routes.methodsOf(path);
    if (methods.length === 0) {
      const meant = routes.nearestTo(method, path);
      const question = meant === undefined ? '' : ` Did you mean ${meant}?`;
      const detail = `There is nothing at this path.${question}${where}`;
      return respond(c, new CodeBoxError('not_found', detail));
    }
    c.header('Allow', methods.join(', '));
    return respond(c, new CodeBoxError('method_not_allowed', `This path takes ${methods.join(', ')}.`));
  };

/** Whether a path is this one, or one below it. */
export const isBelow = (path: string, prefix: string): boolean => path === prefix || path.startsWith(`${prefix}/`);
