import { createBlobProbe } from '../blobs/probe.ts';
import type { ConfigurationError } from '../configuration-error.ts';
import { type HttpServer, listen } from '../http/server/server.ts';
import { onceThere } from '../postgres/away.ts';
import { createActivity } from './boxes/life/activity.ts';
import { createHeartbeat } from './boxes/upkeep/heartbeat.ts';
import { createUsage } from './boxes/usage/usage.ts';
import { type Boxes, type BoxesOptions, openBoxes } from './composition/boxes.ts';
import { type Overrides, openPlatform, type Platform } from './composition/platform.ts';
import { openUpkeep } from './composition/upkeep.ts';
import type { Config } from './config.ts';
import { dialectsOf } from './dialects/dialects.ts';
import { createApp, type Dialect } from './http/app.ts';
import { addUsageMetrics } from './http/metrics/usage-metrics.ts';

/** The last part of the stop, in which requests that still wait get their responses. */
const leaveMs = 1000;
const maxBeatMs = 3000;
/** How late a heartbeat may be. */
const beatLateMs = 2000;
/** Sweeps between two checks of the open WebSockets: they are checked every 15 s by default. */
const sweepsPerSocketCheck = 3;

/**
 * Builds the whole gateway from its configuration; it does not listen until `start`. Disposing of it stops it in order: no new requests
 * are accepted, running ones get time to finish, streams end with a reason, then the database is closed. Boxes stay.
 */
export const createGateway = async (config: Config, overrides: Overrides = {}) => {
  await using stack = new AsyncDisposableStack();
  const platform = await openPlatform(config, overrides, stack);
  const { id, log, store, metrics, driver, background } = platform;

  const beatMs = Math.min(config.sweepMs, maxBeatMs);
  const activity = createActivity(store.boxes.touch, beatMs);
  const displaced = Promise.withResolvers<ConfigurationError>();
  const heartbeat = createHeartbeat({
    gateway: { id, site: driver.site, place: driver.place },
    // The embedded database is in the data folder, so no other place can use it.
    replaced: config.databaseUrl === undefined ? 'any' : config.replaces,
    gateways: store.gateways,
    activity,
    background,
    everyMs: beatMs,
    onDisplaced: displaced.resolve,
  });
  // Deferred first, so it stops last: the gateway has to count as alive until its background work is done.
  stack.defer(heartbeat.stop);
  // Background work gets the time that the requests have left.
  let stopBy = Number.POSITIVE_INFINITY;
  stack.defer(() => background.drain(Math.max(0, Math.min(config.stopMs, stopBy - performance.now()))));
  addUsageMetrics(metrics.registry, createUsage({ driver, boxes: store.boxes }));

  const stopping = new AbortController();
  const leaving = new AbortController();
  const options = { activity, lagMs: 2 * beatMs + beatLateMs, stopping: stopping.signal };
  const boxes = await openBoxes(platform, options);
  const reaper = openUpkeep(platform, boxes, options);
  const { portsDomain, mcpOrigins, mcpIssuer, librechatSigner } = config;
  const dialectOptions = {
    portsDomain,
    mcpOrigins,
    mcpIssuer,
    librechatSigner,
    seal: platform.seal,
    findMakers: store.keys.callersOfBoxes,
    hasEnded: store.boxes.hasEnded,
  };
  const dialects = overrides.dialects ?? (await dialectsOf(config.dialects, dialectOptions));
  const app = openHttp(platform, boxes, { ...options, leaving: leaving.signal, dialects });

  const owned = stack.move();
  let servers: HttpServer[] = [];
  return {
    app,
    store,
    driver,
    log,
    /** Resolves with the reason when another place has taken the site over: then this gateway has to be disposed of. */
    displaced: displaced.promise,
    /** Cleans up after earlier gateways, then listens. Resolves with the port. */
    async start(): Promise<number> {
      await onceThere(heartbeat.start);
      await onceThere(boxes.pool.start);
      await reaper.start();
      owned.defer(reaper.stop);
      const server = await listen(app, config.host, config.port, { openRequests: config.maxOpenRequests });
      servers = [server];
      if (config.adminPort !== undefined) servers.push(await listen(app, config.adminHost, config.adminPort));
      return server.port;
    },
    async [Symbol.asyncDispose](): Promise<void> {
      stopping.abort();
      stopBy = performance.now() + config.stopMs;
      boxes.pool.stop();
      boxes.queue.close();
      const leave = setTimeout(() => leaving.abort(), config.stopMs - Math.min(leaveMs, config.stopMs / 2));
      await Promise.all(servers.map((server) => server.close(config.stopMs)));
      clearTimeout(leave);
      await owned.disposeAsync();
    },
  };
};

export type Gateway = Awaited<ReturnType<typeof createGateway>>;

interface HttpOptions extends BoxesOptions {
  /** Aborted shortly before connections that still wait for a response are closed. */
  leaving: AbortSignal;
  dialects: readonly Dialect[];
}

const openHttp = (platform: Platform, boxes: Boxes, { stopping, leaving, dialects }: HttpOptions) => {
  const { config, store, driver } = platform;
  const probeBlobs = createBlobProbe(boxes.blobs);
  return createApp({
    ...platform,
    ...boxes,
    keptKeys: config.keptKeys,
    portsDomain: config.portsDomain,
    findKey: boxes.quotas.noting(store.keys.find),
    usage: store.usage,
    admin: {
      tenants: store.tenants,
      apiKeys: store.apiKeys,
      audit: store.audit,
      defaultQuotas: config.defaultQuotas,
    },
    adminKey: config.adminKey,
    adminPort: config.adminPort,
    maxOpenRequests: config.maxOpenRequests,
    trustedProxies: config.trustedProxies,
    checkReady: async () => {
      const hasBlobs = probeBlobs();
      await store.keys.ping();
      await driver.ping(AbortSignal.timeout(5000));
      return (await hasBlobs)
        ? {}
        : { blobs: 'The blob store does not respond or refuses requests: boxes cannot hibernate or be restored.' };
    },
    stopping,
    leaving,
    dialects,
    isTraced: config.tracing !== undefined,
    socketCheckMs: sweepsPerSocketCheck * config.sweepMs,
  });
};
