import { type Context, Hono, type MiddlewareHandler } from 'hono';
import type { Logger } from 'pino';
import { type Book, createBook } from '../../http/endpoint.ts';
import { answerBeforeLeaving } from '../../http/leaving.ts';
import { asCodeBoxError, problemResponse } from '../../http/problem.ts';
import { answerUnknown, isBelow, logRequests, refuseDotSegments, refuseManyHosts } from '../../http/requests.ts';
import type { Lifecycle } from '../boxes/life/lifecycle.ts';
import type { Admission } from './admission/admission.ts';
import type { OpenSockets } from './admission/open-sockets.ts';
import { createSides } from './admission/sides.ts';
import { explainSilence } from './ended-box.ts';
import { createEndpoints, type Endpoints } from './endpoint.ts';
import type { Env } from './env.ts';
import type { KeyClaims } from './idempotency/key-claims.ts';
import type { Metrics } from './metrics/metrics.ts';
import { traceRequests } from './metrics/request-span.ts';
import type { PortClaim } from './ports/proxy.ts';
import { hasPortHost } from './ports/target.ts';
import type { Surface } from './surface.ts';

export interface ShellOptions {
  log: Logger;
  /** Whether traces are taken. */
  isTraced: boolean;
  metrics: Pick<Metrics, 'middleware'>;
  /** Passes requests for the ports of boxes on. */
  passPorts: (claimOf: (c: Context<Env>) => PortClaim | undefined) => MiddlewareHandler<Env>;
  portsDomain: string;
  /** Where the admin API and the metrics listen instead, when they do. */
  adminPort: number | undefined;
  admission: Admission;
  openSockets: OpenSockets;
  claims: KeyClaims;
  lifecycle: Pick<Lifecycle, 'ended'>;
  /** Aborted when the gateway begins to stop. */
  stopping: AbortSignal;
  /** Aborted shortly before connections that still wait for a response are cut. */
  leaving: AbortSignal;
}

interface Mounted {
  surface: Surface;
  unknown: (c: Context<Env>) => Response;
}

/**
 * What every request passes, whichever surface it is for: request id, log, metrics, trace, the ports of boxes, the sides of the gateway,
 * and the words in which it is refused. Whatever no surface claims belongs to the gateway itself and is public.
 */
export const createShell = (options: ShellOptions) => {
  const { admission, openSockets, claims, adminPort, portsDomain } = options;
  const app = new Hono<Env>();
  const book = createBook();
  const mounted: Mounted[] = [];

  const byRequest = (c: Context<Env>): Mounted | undefined => {
    const incoming = c.env?.incoming;
    return incoming && mounted.find(({ surface }) => 'request' in surface.claims && surface.claims.request(incoming));
  };
  const surfaceOf = (c: Context<Env>): Mounted | undefined => {
    const found = byRequest(c);
    // A server in a box that has a host of its own has all paths of that host.
    if (found || (c.env?.incoming && hasPortHost(c.env.incoming, portsDomain))) return found;
    return mounted.find(({ surface }) => 'prefix' in surface.claims && isBelow(c.req.path, surface.claims.prefix));
  };
  const onSurfaces =
    (handler: MiddlewareHandler<Env>): MiddlewareHandler<Env> =>
    (c, next) =>
      surfaceOf(c) ? handler(c, next) : next();

  // First, so that the log of the request tells its trace.
  if (options.isTraced) app.use(traceRequests());
  app.use(logRequests(options.log));
  app.use(options.metrics.middleware);
  app.use(refuseManyHosts());
  const sides = createSides(adminPort, (c) => byRequest(c) !== undefined);
  const claimOf = (c: Context<Env>): PortClaim | undefined => {
    const { surface } = byRequest(c) ?? {};
    const readers = surface?.readTarget ? [surface.readTarget] : [];
    return surface && { readers, letIn: (asking) => admission.letIn(asking, surface, 'run') };
  };
  app.use(sides.exceptAdmin(options.passPorts(claimOf)));
  app.use(sides.separate);
  app.use(refuseDotSegments());
  app.use(onSurfaces(openSockets.watchStream));
  app.use(onSurfaces(answerBeforeLeaving(options)));

  app.onError(async (thrown, c) => {
    const error = await explainSilence(c, asCodeBoxError(thrown), options.lifecycle);
    if (error.code === 'internal' || error.code === 'unavailable') c.get('log').error({ err: thrown }, error.message);
    return (surfaceOf(c)?.surface.respond ?? problemResponse)(c, error);
  });
  app.notFound(answerUnknown(book.routes));

  return {
    app,
    /** Of the API that `openapi.yaml` describes. */
    book,

    /**
     * Gives a surface its routes; the one that is mounted first wins what several claim. Without a book of its own its routes are
     * described nowhere but where it describes them.
     */
    mount(surface: Surface, kept: Book = createBook()): Endpoints {
      const entry = { surface, unknown: answerUnknown(kept.routes, surface.respond, kept === book ? undefined : '') };
      mounted.push(entry);
      const { toBox } = surface;
      return createEndpoints({
        app,
        claims,
        book: kept,
        isOwn: (c) => surfaceOf(c) === entry,
        letIn: (c, scope) => admission.letIn(c, surface, scope),
        ...(toBox && { readId: (name: string, text: string) => (name === 'box' ? toBox(text) : text) }),
      });
    },

    /** The routes that belong to no surface; to be asked for once all surfaces have theirs, which then end there. */
    own(): Endpoints {
      app.use(async (c, next) => {
        const entry = surfaceOf(c);
        if (!entry) return await next();
        await admission.letIn(c, entry.surface);
        return entry.unknown(c);
      });
      return createEndpoints({ app, claims, book });
    },
  };
};
