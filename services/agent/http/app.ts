import type { Hono } from 'hono';
import type { Logger } from 'pino';
import { answerBeforeLeaving } from '../../http/leaving.ts';
import { asCodeBoxError, problemResponse } from '../../http/problem.ts';
import { answerUnknown, logRequests, refuseDotSegments } from '../../http/requests.ts';
import type { Answers } from '../chats/answers.ts';
import type { Cells } from '../chats/cells.ts';
import type { Chats } from '../chats/chats.ts';
import type { Files } from '../chats/files.ts';
import type { Terminals } from '../chats/terminals.ts';
import type { Catalog } from '../models/catalog.ts';
import { createEndpoints, type Endpoints } from './endpoints.ts';
import type { Env } from './env.ts';
import type { Owners } from './owner.ts';
import { addCellRoutes } from './routes/cells.ts';
import { addChatRoutes } from './routes/chats.ts';
import { addFileRoutes } from './routes/files.ts';
import { addMessageRoutes } from './routes/messages.ts';
import { addModelRoute } from './routes/models.ts';
import { addSystemRoutes, type SystemParts } from './routes/system.ts';
import { addTerminalRoutes } from './routes/terminals.ts';

/** What the routes call. */
export interface RouteParts extends SystemParts {
  chats: Chats;
  answers: Answers;
  catalog: Pick<Catalog, 'list' | 'hint'>;
  files: Files;
  cells: Cells;
  terminals: Terminals;
}

export interface AppOptions extends RouteParts {
  log: Logger;
  owners: Owners;
  /** Aborted shortly before what is still waiting for an answer would be cut. */
  leaving: AbortSignal;
}

/** What is asked without being somebody: it is for all, or a token in it says enough. */
const isOpenToAll = (path: string): boolean =>
  path === '/v1/info' || path.startsWith('/v1/files/') || /^\/v1\/chats\/[^/]+\/terminal$/.test(path);

/** The HTTP application: request ids, logs, metrics, errors, owners, and all routes. */
export const createApp = (options: AppOptions): { app: Hono<Env>; endpoints: Endpoints } => {
  const endpoints = createEndpoints();
  const { app, methodsOf } = endpoints;
  app.use(logRequests(options.log));
  app.use(options.metrics.middleware);
  app.use(refuseDotSegments());
  app.use('/v1/*', async (c, next) => {
    if (isOpenToAll(c.req.path)) return await next();
    return await options.owners.middleware(c, next);
  });
  app.use('/v1/*', answerBeforeLeaving(options));
  app.onError((thrown, c) => {
    const error = asCodeBoxError(thrown);
    if (error.code === 'internal' || error.code === 'unavailable') c.get('log').error({ err: thrown }, error.message);
    return problemResponse(c, error);
  });
  app.notFound(answerUnknown(methodsOf));
  addRoutes(endpoints, options);
  return { app, endpoints };
};

/** All routes of the agent. */
export const addRoutes = (endpoints: Endpoints, parts: RouteParts): void => {
  addSystemRoutes(endpoints, parts);
  addChatRoutes(endpoints, parts.chats);
  addMessageRoutes(endpoints, parts.answers, parts.stopping);
  addModelRoute(endpoints, parts.catalog);
  addFileRoutes(endpoints, parts.files);
  addCellRoutes(endpoints, parts.cells, parts.stopping);
  addTerminalRoutes(endpoints, parts.terminals, parts.stopping);
};
