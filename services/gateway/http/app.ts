import type { Hono } from 'hono';
import type { Logger } from 'pino';
import { createOpenRequests } from '../../http/server/open-requests.ts';
import type { Background } from '../../waiting/background.ts';
import type { Builds } from '../boxes/builds/builds.ts';
import type { Creation } from '../boxes/creation/creation.ts';
import type { Exports } from '../boxes/exports/exports.ts';
import type { Access } from '../boxes/life/access.ts';
import type { Directory } from '../boxes/life/directory.ts';
import type { Endings } from '../boxes/life/endings.ts';
import type { FileWatch } from '../boxes/reach/file-watch.ts';
import type { Files } from '../boxes/reach/files.ts';
import type { Jupyter } from '../boxes/reach/jupyter.ts';
import type { Links } from '../boxes/reach/links.ts';
import type { PortSessions } from '../boxes/reach/port-sessions.ts';
import type { Ports } from '../boxes/reach/ports.ts';
import type { Stats } from '../boxes/reach/stats.ts';
import type { Terminals } from '../boxes/reach/terminals.ts';
import type { Tickets } from '../boxes/reach/tickets.ts';
import type { Rest } from '../boxes/rest/rest.ts';
import type { Commands } from '../boxes/runs/commands.ts';
import type { Contexts } from '../boxes/runs/contexts.ts';
import type { Executions } from '../boxes/runs/executions.ts';
import type { Notebooks } from '../boxes/runs/notebooks.ts';
import type { Packages } from '../boxes/runs/packages.ts';
import type { Catalog } from '../boxes/supply/catalog.ts';
import type { TenantVolumes } from '../boxes/volumes/volumes.ts';
import type { Webhooks } from '../boxes/webhooks/webhooks.ts';
import type { Store } from '../store/store.ts';
import type { ValidKey } from '../store/tenants/keys.ts';
import type { UsageStore } from '../store/usage/usage.ts';
import { createAddressOf } from './admission/address.ts';
import { createAdmission } from './admission/admission.ts';
import { createFailures } from './admission/failures.ts';
import { createKeyCheck } from './admission/key-check.ts';
import { createOpenSockets } from './admission/open-sockets.ts';
import { createRequestRates } from './admission/request-rates.ts';
import type { Endpoints } from './endpoint.ts';
import type { Env } from './env.ts';
import { createKeyBounds } from './idempotency/key-bounds.ts';
import { createKeyClaims } from './idempotency/key-claims.ts';
import type { Metrics } from './metrics/metrics.ts';
import { createPortAccess } from './ports/access.ts';
import { createForwarding, type Forwarding, servePorts } from './ports/proxy.ts';
import { addAuditRoute } from './routes/admin/audit.ts';
import { addKeyRoutes } from './routes/admin/keys.ts';
import type { AdminParts } from './routes/admin/parts.ts';
import { addTenantRoutes } from './routes/admin/tenants.ts';
import { addBoxRoutes } from './routes/boxes/boxes.ts';
import { addPortRoutes } from './routes/boxes/ports.ts';
import { addSocketRoute } from './routes/boxes/socket.ts';
import { addStatsRoute } from './routes/boxes/stats.ts';
import { addTemplateBuildRoutes } from './routes/boxes/template-builds.ts';
import { addTemplateRoutes } from './routes/boxes/templates.ts';
import { addTerminalRoutes } from './routes/boxes/terminals.ts';
import { addTicketRoutes } from './routes/boxes/tickets.ts';
import { addVolumeRoutes } from './routes/boxes/volumes.ts';
import { addCallerRoute } from './routes/caller.ts';
import { addExportRoutes } from './routes/files/exports.ts';
import { addFileRoutes } from './routes/files/files.ts';
import { addLinkedFileRoutes, addLinkRoutes } from './routes/files/links.ts';
import { addFileOperationRoutes } from './routes/files/operations.ts';
import { addFileSearchRoute } from './routes/files/search.ts';
import { addFileWatchRoute } from './routes/files/watch.ts';
import { addCommandRoutes, createCommandResponses } from './routes/runs/commands.ts';
import { addContextRoutes } from './routes/runs/contexts.ts';
import { addExecutionRoutes } from './routes/runs/executions.ts';
import { addNotebookRoutes } from './routes/runs/notebooks.ts';
import { addPackageRoutes } from './routes/runs/packages.ts';
import { addRunRoute, type RunParts } from './routes/runs/run.ts';
import { addSystemRoutes, type SystemOptions } from './routes/system.ts';
import { addUsageRoutes } from './routes/usage.ts';
import { addWebhookRoutes } from './routes/webhooks.ts';
import { createShell } from './shell.ts';
import { createWebSockets, type WebSockets } from './sockets/websocket.ts';
import type { Surface } from './surface.ts';
import { createFileLinks, createV1, v1Admin } from './v1.ts';

/** The use cases and settings that the routes need. */
export interface RouteParts extends RunParts {
  metrics: Metrics;
  catalog: Catalog;
  directory: Directory;
  access: Access;
  builds: Builds;
  creation: Creation;
  endings: Endings;
  rest: Rest;
  executions: Executions;
  contexts: Contexts;
  commands: Commands;
  files: Files;
  fileWatch: FileWatch;
  jupyter: Jupyter;
  exports: Exports;
  links: Links;
  notebooks: Notebooks;
  volumes: TenantVolumes;
  webhooks: Webhooks;
  packages: Packages;
  terminals: Terminals;
  stats: Stats;
  tickets: Tickets;
  forward: Forwarding;
  webSockets: WebSockets;
  admin: AdminParts;
  usage: UsageStore;
  /** Throws when no box could be created now. */
  checkReady: SystemOptions['checkReady'];
  /** Aborted when the gateway begins to stop. */
  stopping: AbortSignal;
  /** How often the key and the box of an open WebSocket are checked again. */
  socketCheckMs: number;
}

/** An API that the clients of another service expect: a surface, and routes that map it onto the use cases. */
export interface Dialect {
  surface: Surface;
  addRoutes: (endpoints: Endpoints, parts: RouteParts) => void;
}

export interface AppOptions extends Omit<RouteParts, 'forward' | 'webSockets'> {
  log: Logger;
  dialects: readonly Dialect[];
  ports: Ports;
  portSessions: PortSessions;
  portsDomain: string;
  /** Whether requests are traced. */
  isTraced: boolean;
  adminKey: string | undefined;
  /** The port of the admin API and the metrics; undefined when they share the main port. */
  adminPort: number | undefined;
  trustedProxies: readonly string[];
  /** The number of requests that a tenant may have open at once. */
  maxOpenRequests: number;
  findKey: (id: string) => Promise<ValidKey | undefined>;
  store: Pick<Store, 'idempotency' | 'quotas'>;
  background: Background;
  /** Bounds on the stored Idempotency-Keys of one tenant. */
  keptKeys: { maxKeys: number; maxResponseBytes: number };
}

/** The HTTP application: the shell and the surfaces that are mounted on it. */
export const createApp = (options: AppOptions): Hono<Env> => {
  const { store, background, keptKeys, tickets, stopping, adminKey } = options;
  const { idempotency } = store;
  const bounds = createKeyBounds({ idempotency, background, ...keptKeys });
  const keys = createKeyCheck(options.findKey);
  const rates = createRequestRates(store.quotas);
  const openSockets = createOpenSockets({ stopping, keys, rates, checkEveryMs: options.socketCheckMs });
  const addressOf = createAddressOf(options.trustedProxies);
  const redeemTicket = tickets.redeem;
  const openRequests = createOpenRequests(options.maxOpenRequests);
  const admission = createAdmission({
    keys,
    failures: createFailures(),
    addressOf,
    rates,
    openRequests,
    redeemTicket,
    adminKey,
  });
  const sessions = options.portSessions;
  const access = createPortAccess({ keys, admission, rates, openRequests, tickets, sessions });
  const forward = createForwarding({ ports: options.ports, openSockets });
  const shell = createShell({
    ...options,
    servePorts: (claimOf) =>
      servePorts({
        forward,
        access,
        domain: options.portsDomain,
        claimOf,
        idOf: options.directory.idOf,
      }),
    admission,
    openSockets,
    claims: createKeyClaims({ idempotency, bounds, background }),
  });
  const parts = { ...options, forward, webSockets: createWebSockets(openSockets, admission, addressOf) };
  // Mounted before `/v1`, whose prefix includes its paths.
  const admin = shell.mount(v1Admin, shell.book);
  addLinkedFileRoutes(shell.mount(createFileLinks(parts.links), shell.book), parts.links);
  addV1Routes(shell.mount(createV1(parts.directory, parts.volumes), shell.book), parts);
  addAdminRoutes(admin, parts);
  for (const { surface, addRoutes } of options.dialects) addRoutes(shell.mount(surface), parts);
  addSystemRoutes(shell.own(), parts);
  return shell.app;
};

/** All routes that `openapi.yaml` describes. */
export const addRoutes = (endpoints: Endpoints, parts: RouteParts): void => {
  addSystemRoutes(endpoints, parts);
  addV1Routes(endpoints, parts);
  addLinkedFileRoutes(endpoints, parts.links);
  addAdminRoutes(endpoints, parts);
};

/** The routes of `/v1`. */
const addV1Routes = (endpoints: Endpoints, parts: RouteParts): void => {
  addTemplateRoutes(endpoints, parts.catalog);
  addTemplateBuildRoutes(endpoints, parts.builds, parts.stopping);
  addBoxRoutes(endpoints, parts);
  addExecutionRoutes(endpoints, parts.executions, parts.stopping);
  addSocketRoute(endpoints, parts);
  addContextRoutes(endpoints, parts.contexts);
  addFileRoutes(endpoints, parts.files);
  addFileOperationRoutes(endpoints, parts.files);
  addFileSearchRoute(endpoints, parts.files);
  addFileWatchRoute(endpoints, parts.fileWatch, parts.stopping);
  addLinkRoutes(endpoints, parts.links);
  addExportRoutes(endpoints, parts.exports, parts.stopping);
  const runs = createCommandResponses(parts.commands, parts.stopping);
  addCommandRoutes(endpoints, parts.commands, runs);
  addNotebookRoutes(endpoints, parts.notebooks, runs);
  addPackageRoutes(endpoints, parts.packages, runs);
  addRunRoute(endpoints, parts);
  addStatsRoute(endpoints, parts.stats, parts.stopping);
  addTicketRoutes(endpoints, parts.tickets);
  addPortRoutes(endpoints);
  addTerminalRoutes(endpoints, parts.terminals, parts.webSockets);
  addCallerRoute(endpoints);
  addUsageRoutes(endpoints, parts);
  addVolumeRoutes(endpoints, parts.volumes);
  addWebhookRoutes(endpoints, parts.webhooks);
};

/** The routes of `/v1/admin`. */
const addAdminRoutes = (endpoints: Endpoints, parts: Pick<RouteParts, 'admin' | 'usage'>): void => {
  addTenantRoutes(endpoints, parts);
  addKeyRoutes(endpoints, parts);
  addAuditRoute(endpoints, parts);
};
