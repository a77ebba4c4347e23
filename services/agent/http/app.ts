import type { Hono, MiddlewareHandler } from 'hono';
import { CodeBoxError } from '#contract';
import { boundHeldBytes } from '../../http/bodies/held-bytes.ts';
import { asCodeBoxError } from '../../http/problems/problem.ts';
import { refuseBeforeLeaving } from '../../http/server/leaving.ts';
import { logRequests, refuseDotSegments, refuseManyHosts, refuseUnknown } from '../../http/server/requests.ts';
import type { Terminals } from '../chats/console/terminals.ts';
import { addDialects, type DialectParts } from '../dialects/dialects.ts';
import { isStoredFilePath } from '../dialects/openai/files.ts';
import type { Catalog } from '../models/catalog.ts';
import { createEndpoints, type Endpoints } from './endpoints.ts';
import type { Env } from './env.ts';
import { callerOf, limitOpenRequests } from './open-requests.ts';
import type { Owners } from './owner.ts';
import { addCellRoutes } from './routes/cells.ts';
import { addChatRoutes } from './routes/chats.ts';
import { addFileRoutes } from './routes/files.ts';
import { addMessageRoutes } from './routes/messages.ts';
import { addModelRoute } from './routes/models.ts';
import { addSystemRoutes, type SystemParts } from './routes/system.ts';
import { addTerminalRoutes } from './routes/terminals.ts';

/** The services that the routes call. */
export interface RouteParts extends SystemParts, DialectParts {
  catalog: Pick<Catalog, 'list' | 'hint' | 'check'>;
  terminals: Terminals;
}

export interface AppOptions extends RouteParts {
  owners: Owners;
  metricsPort: number | undefined;
  /** Aborted shortly before requests that still wait for an answer would be cut. */
  leaving: AbortSignal;
}

/** With a port of their own, the metrics are served there only, and nothing else is. */
const separateMetrics =
  (metricsPort: number | undefined): MiddlewareHandler<Env> =>
  (c, next) => {
    const isOnMetricsPort = c.env?.incoming?.socket.localPort === metricsPort;
    if (metricsPort === undefined || isOnMetricsPort === (c.req.path === '/metrics')) return next();
    throw new CodeBoxError('not_found', 'This path is not served on this port.');
  };

/** Paths that need no owner: they are public, or a token in them is enough. */
const isOpenToAll = (path: string): boolean =>
  path === '/v1/info' ||
  (path.startsWith('/v1/files/') && !isStoredFilePath(path)) ||
  /^\/v1\/chats\/[^/]+\/terminal$/.test(path);

/** The HTTP application: request ids, logs, metrics, errors, owners, and all routes. */
export const createApp = (options: AppOptions): { app: Hono<Env>; endpoints: Endpoints } => {
  const endpoints = createEndpoints();
  const { app, routes, respond } = endpoints;
  app.use(logRequests(options.log));
  app.use(options.metrics.middleware);
  app.use(refuseManyHosts());
  app.use(boundHeldBytes(callerOf));
  app.use(refuseDotSegments());
  app.use(separateMetrics(options.metricsPort));
  const boundOpen = limitOpenRequests();
  for (const path of ['/v1/*', '/gpt-code-ui/*']) {
    app.use(path, async (c, next) => {
      if (isOpenToAll(c.req.path)) return await next();
      return await options.owners.middleware(c, () => boundOpen(c, next));
    });
    app.use(path, refuseBeforeLeaving(options));
  }
  app.onError((thrown, c) => {
    const error = asCodeBoxError(thrown);
    if (error.code === 'internal' || error.code === 'unavailable') c.get('log').error({ err: thrown }, error.message);
    return respond(c, error);
  });
  app.notFound(refuseUnknown(routes, respond));
  addRoutes(endpoints, options);
  return { app, endpoints };
};

/** All routes of the agent. */
export const addRoutes = (endpoints: Endpoints, parts: RouteParts): void => {
  addSystemRoutes(endpoints, parts);
  addChatRoutes(endpoints, parts.chats, parts.catalog);
  addMessageRoutes(endpoints, parts.answers, parts.stopping);
  addModelRoute(endpoints, parts.catalog);
  addCellRoutes(endpoints, parts.cells, parts.stopping);
  addTerminalRoutes(endpoints, parts.terminals, parts.stopping);
  addDialects(endpoints, parts);
  // Behind the files of OpenAI's clients, whose paths have the form of links.
  addFileRoutes(endpoints, parts.files);
};
