import { type Context, Hono, type MiddlewareHandler } from 'hono';
import type { Logger } from 'pino';
import { boundHeldBytes } from '../../http/bodies/held-bytes.ts';
import { type Book, createBook } from '../../http/endpoints/endpoint.ts';
import { asCodeBoxError, problemResponse } from '../../http/problems/problem.ts';
import { refuseBeforeLeaving } from '../../http/server/leaving.ts';
import { isBelow, logRequests, refuseDotSegments, refuseManyHosts, refuseUnknown } from '../../http/server/requests.ts';
import type { Directory } from '../boxes/life/directory.ts';
import { createAdminPort } from './admission/admin-port.ts';
import type { Admission } from './admission/admission.ts';
import type { OpenSockets } from './admission/open-sockets.ts';
import { permitOrigins } from './cross-origin.ts';
import { withCauseOfEnd } from './ended-box.ts';
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
  /** Whether requests are traced. */
  isTraced: boolean;
  metrics: Pick<Metrics, 'middleware'>;
  /** Creates the middleware that forwards requests to the ports of boxes. */
  servePorts: (claimOf: (c: Context<Env>) => PortClaim | undefined) => MiddlewareHandler<Env>;
  portsDomain: string;
  /** The port of the admin API and the metrics; undefined when they share the main port. */
  adminPort: number | undefined;
  admission: Admission;
  openSockets: OpenSockets;
  claims: KeyClaims;
  directory: Pick<Directory, 'endedError'>;
  /** Aborted when the gateway begins to stop. */
  stopping: AbortSignal;
  /** Aborted shortly before connections that still wait for a response are closed. */
  leaving: AbortSignal;
}

interface Mounted {
  surface: Surface;
  unknown: (c: Context<Env>) => Response;
}

/**
 * The middleware that every request passes, whichever surface it is for: request id, log, metrics, trace, ports of boxes, the admin port,
 * and error rendering. A request that no surface claims belongs to the gateway itself and is public.
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
    // On the host of a port, every path belongs to the server in the box.
    if (found || (c.env?.incoming && hasPortHost(c.env.incoming, portsDomain))) return found;
    return mounted.find(({ surface }) => 'prefix' in surface.claims && isBelow(c.req.path, surface.claims.prefix));
  };
  const onSurfaces =
    (handler: MiddlewareHandler<Env>): MiddlewareHandler<Env> =>
    (c, next) =>
      surfaceOf(c) ? handler(c, next) : next();

  // First, so that the request log includes the trace id.
  if (options.isTraced) app.use(traceRequests());
  app.use(logRequests(options.log));
  app.use(options.metrics.middleware);
  app.use(refuseManyHosts());
  app.use(boundHeldBytes<Env>((c) => c.get('tenant')));
  const admin = createAdminPort(adminPort, (c) => byRequest(c) !== undefined);
  const claimOf = (c: Context<Env>): PortClaim | undefined => {
    const { surface } = byRequest(c) ?? {};
    const readers = surface?.readTarget ? [surface.readTarget] : [];
    return surface && { readers, admit: (request) => admission.admit(request, surface, 'run') };
  };
  app.use(admin.exceptOnAdminPort(options.servePorts(claimOf)));
  app.use(admin.separate);
  app.use((c, next) => (surfaceOf(c)?.surface.isForPages ? permitOrigins(c, next) : next()));
  app.use(refuseDotSegments());
  app.use(onSurfaces(openSockets.watchStream));
  app.use(onSurfaces(refuseBeforeLeaving(options)));

  app.onError(async (thrown, c) => {
    const error = await withCauseOfEnd(c, asCodeBoxError(thrown), options.directory);
    if (error.code === 'internal' || error.code === 'unavailable') c.get('log').error({ err: thrown }, error.message);
    return (surfaceOf(c)?.surface.respond ?? problemResponse)(c, error);
  });
  app.notFound(refuseUnknown(book.routes));

  return {
    app,
    /** The routes that `openapi.yaml` describes. */
    book,

    /**
     * Mounts a surface and returns its endpoints, to add routes to. When several surfaces claim a request, the one mounted first
     * serves it. Routes are part of `openapi.yaml` only when they are added to this shell's `book`.
     */
    mount(surface: Surface, kept: Book = createBook()): Endpoints {
      const entry = { surface, unknown: refuseUnknown(kept.routes, surface.respond, kept === book ? undefined : '') };
      mounted.push(entry);
      const { toBox, toVolume } = surface;
      return createEndpoints({
        app,
        claims,
        book: kept,
        isOwn: (c) => surfaceOf(c) === entry,
        admit: (c, scope) => admission.admit(c, surface, scope),
        readId(c: Context<Env>, name: string, text: string) {
          const toId = name === 'box' ? toBox : name === 'volume' ? toVolume : undefined;
          return toId ? toId(text, c.get('tenant')) : text;
        },
      });
    },

    /** Returns the endpoints that belong to no surface. Call it after all surfaces have added their routes: theirs end here. */
    own(): Endpoints {
      app.use(async (c, next) => {
        const entry = surfaceOf(c);
        if (!entry) return await next();
        await admission.admit(c, entry.surface);
        return entry.unknown(c);
      });
      return createEndpoints({ app, claims, book });
    },
  };
};
