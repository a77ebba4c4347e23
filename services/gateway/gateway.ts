import { join } from 'node:path';
import { type Logger, pino } from 'pino';
import { openBlobs } from '../blobs/open-blobs.ts';
import { createBlobProbe } from '../blobs/probe.ts';
import { type HttpServer, listen } from '../http/server.ts';
import { startEmbeddedPostgres } from '../postgres/embedded.ts';
import { errorSerializers } from '../postgres/error-log.ts';
import { newId } from '../postgres/id.ts';
import { createBackground } from '../waiting/background.ts';
import { createBoxConnections } from './box-server/connections.ts';
import { createAccess } from './boxes/life/access.ts';
import { createActivity } from './boxes/life/activity.ts';
import { createBoxUsage } from './boxes/life/box-usage.ts';
import { createCpuBudget } from './boxes/life/cpu-budget.ts';
import { createLastWords } from './boxes/life/last-words.ts';
import { createLifecycle } from './boxes/life/lifecycle.ts';
import { createRecorder } from './boxes/life/recorder.ts';
import { createFileWatch } from './boxes/reach/file-watch.ts';
import { createFiles } from './boxes/reach/files.ts';
import { createPortSessions } from './boxes/reach/port-sessions.ts';
import { createPorts } from './boxes/reach/ports.ts';
import { createStats } from './boxes/reach/stats.ts';
import { createTerminals } from './boxes/reach/terminals.ts';
import { createTickets } from './boxes/reach/tickets.ts';
import { createCommands } from './boxes/runs/commands.ts';
import { createContexts } from './boxes/runs/contexts.ts';
import { createExecutions } from './boxes/runs/executions.ts';
import { createFollowing } from './boxes/runs/following.ts';
import { createPackages } from './boxes/runs/packages.ts';
import { createRun } from './boxes/runs/run.ts';
import { givenUpMs } from './boxes/supply/starts.ts';
import { createSupply } from './boxes/supply/supply.ts';
import { readTemplates } from './boxes/supply/templates.ts';
import { createCpuQuota } from './boxes/upkeep/cpu-quota.ts';
import { createHeartbeat } from './boxes/upkeep/heartbeat.ts';
import { createIdleness } from './boxes/upkeep/idleness.ts';
import { createPulse } from './boxes/upkeep/pulse.ts';
import { createPurges } from './boxes/upkeep/purges.ts';
import { createReaper } from './boxes/upkeep/reaper.ts';
import { createRests } from './boxes/upkeep/rests.ts';
import { createSettlement } from './boxes/upkeep/settlement.ts';
import { createMeter } from './boxes/usage/meter.ts';
import { createQuotas } from './boxes/usage/quotas.ts';
import { createUsage } from './boxes/usage/usage.ts';
import { below, readCeiling } from './ceiling.ts';
import type { Config } from './config.ts';
import { createDockerDriver } from './drivers/docker/driver.ts';
import type { Driver } from './drivers/driver.ts';
import { requireFreeSpace } from './drivers/host/free-space.ts';
import { readCertificates } from './drivers/host/host-certificates.ts';
import { createLocalDriver } from './drivers/local/driver.ts';
import { observeDriver } from './drivers/observed-driver.ts';
import { createApp } from './http/app.ts';
import { createMetrics } from './http/metrics/metrics.ts';
import { createPoolMetrics } from './http/metrics/pool-metrics.ts';
import { addUsageMetrics } from './http/metrics/usage-metrics.ts';
import { requireIsolation, unmetIsolation } from './posture.ts';
import { openStore } from './store/store.ts';
import { traceFields } from './tracing/span.ts';

/** Parts that a caller brings instead of those that the configuration names. */
export interface Overrides {
  log?: Logger;
  driver?: Driver;
}

/** What a stopping gateway has to answer those that it cannot wait for. */
const leaveMs = 1000;
const maxBeatMs = 3000;
/** What a heartbeat may come late. */
const beatLateMs = 2000;
/** Open WebSockets are looked at less often than boxes: 15 s by default. */
const sweepsPerSocketCheck = 3;

/**
 * Builds the whole gateway from its configuration; nothing listens until `start`. Disposing it stops in order: no new
 * requests, running ones get time, streams end with a reason, then the database is closed. Boxes stay.
 */
export const createGateway = async (config: Config, overrides: Overrides = {}) => {
  const log =
    overrides.log ??
    pino({ level: config.logLevel, serializers: errorSerializers, ...(config.tracing && { mixin: traceFields }) });
  await using stack = new AsyncDisposableStack();
  if (config.tracing) {
    const { startTracing } = await import('./tracing/tracing.ts');
    stack.defer(await startTracing(config.tracing, (text) => log.warn(text)));
  }

  const onRestart = (event: string, err: unknown) =>
    log.warn({ err, event }, 'the embedded PostgreSQL ended by itself');
  const embedded =
    config.databaseUrl === undefined
      ? await startEmbeddedPostgres(join(config.dataDir, 'postgres'), onRestart)
      : undefined;
  if (embedded) stack.defer(embedded.stop);
  // A new one at each start: what an earlier life of this gateway left unfinished is nobody's.
  const id = newId('gw');
  const onBroken = (err: Error) => log.warn({ err }, 'a database connection broke');
  const store = await openStore(config.databaseUrl ?? embedded?.url ?? '', onBroken, id);
  stack.defer(store.close);

  const given = readTemplates(config.templatesFile, config.boxImage, config.warmBoxes);
  const ceiling = readCeiling(config, given.values());
  const templates = below(ceiling, given);
  const deployment = await store.keys.deployment(newId('dep'));
  const metrics = createMetrics({
    countBoxes: store.boxes.countByState,
    database: { ping: store.keys.ping, connections: store.connections },
    languages: [...templates.values()].flatMap((template) => template.languages),
  });
  let hasten = () => {};
  const onDaemon = (state: 'open' | 'closed', err: unknown) => {
    metrics.driverUp.set(state === 'open' ? 0 : 1);
    if (state === 'open') return log.error({ err }, 'the Docker daemon does not answer: boxes cannot be made or ended');
    log.warn('the Docker daemon answers again');
    hasten();
  };
  const chosen = overrides.driver ?? (await chooseDriver(config, deployment.id, onDaemon));
  const driver = observeDriver(chosen, ({ call, outcome, seconds }) =>
    metrics.driverCalls.observe({ driver: chosen.name, call, outcome }, seconds),
  );
  const unmet = unmetIsolation(config, driver.capabilities, templates.values());
  requireIsolation(unmet, config.unsafe, (text) => log.warn(text));
  for (const weakness of driver.capabilities.weaknesses) log.warn({ driver: driver.name }, weakness);

  const connections = createBoxConnections({
    secret: deployment.secret,
    onFailure: (kind) => metrics.boxServerErrors.inc({ kind }),
  });
  stack.defer(connections.close);
  const background = createBackground((what, err) => log.error({ err }, `could not ${what}`));
  const activity = createActivity(store.boxes.touch);
  const beatMs = Math.min(config.sweepMs, maxBeatMs);
  const heartbeat = createHeartbeat({ gateway: id, gateways: store.gateways, activity, background, everyMs: beatMs });
  // After the work behind the requests: until then it lives.
  stack.defer(heartbeat.stop);
  // What requests have used of the time to stop is not there for the work behind them.
  let stopBy = Number.POSITIVE_INFINITY;
  stack.defer(() => background.drain(Math.max(0, Math.min(config.stopMs, stopBy - performance.now()))));
  addUsageMetrics(metrics.registry, createUsage({ driver, boxes: store.boxes }));
  const recorder = createRecorder({
    executions: store.executions,
    touch: store.boxes.touch,
    background,
    onFinish: metrics.executionEnded,
    onDrop: (count) => log.warn({ count }, 'too many ends of executions wait for the database: their boxes keep them'),
  });
  const meter = createMeter({ driver, usage: store.usage });
  const quotas = createQuotas(store.quotas);
  const wake = (tenant: string, box: string) => rests.rest.wake(tenant, box);
  const warmest = [...templates.values()].reduce((sum, template) => sum + template.warm, 0);
  const warmestMb = [...templates.values()].reduce((sum, { warm, limits }) => sum + warm * limits.memoryMb, 0);
  if (warmest > ceiling.instances || warmestMb > ceiling.memoryMb)
    log.warn({ warm: warmest, warmMb: warmestMb, ceiling }, 'the pools cannot all be filled');
  const poolMetrics = createPoolMetrics(metrics.registry, {
    templates: templates.keys(),
    ceilingMb: ceiling.memoryMb,
    census: store.pools.census,
    countWaiting: store.waiting.count,
  });
  const { instances, queue, pool, allocation } = createSupply({
    driver,
    store,
    connections,
    background,
    meter,
    templates,
    ceiling,
    startMs: config.startMs,
    dataDir: config.dataDir,
    waitMs: config.queueMs,
    onBreaker: ({ template, isOpen, pauseMs, error: err }) => {
      poolMetrics.breaker.set({ template }, isOpen ? 1 : 0);
      if (isOpen) log.error({ template, pauseMs, err }, 'a warm instance could not be made');
      else log.info({ template }, 'warm instances can be made again');
    },
    onUnfit: (err) => {
      poolMetrics.unfit.inc();
      log.warn({ err }, 'a warm instance was not fit for a box');
    },
  });
  const lifecycle = createLifecycle({
    driver,
    store,
    access: createAccess({ store, connections, activity, wake }),
    wake,
    activity,
    templates,
    allocation,
    instances,
    startMs: config.startMs,
    waitMs: config.queueMs,
    lastWords: createLastWords({ store, connections, recorder }),
    quotas,
    onClaim: poolMetrics.claimed,
  });
  const usage = createBoxUsage({ driver, lifecycle });
  const budget = createCpuBudget(usage, quotas);
  const stopping = new AbortController();
  const commands = createCommands({
    lifecycle,
    activity,
    background,
    budget,
    stopping: stopping.signal,
    graceMs: config.runGraceMs,
  });
  const lagMs = 2 * beatMs + beatLateMs;
  const idleness = createIdleness({ boxes: store.boxes, connections, commands, lagMs });
  const blobs = await openBlobs(config.blobs, deployment.id);
  const answersBlobs = createBlobProbe(blobs);
  const rests = createRests({
    driver,
    store,
    blobs,
    connections,
    lifecycle,
    background,
    quotas,
    idleness,
    flush: async () => {
      await recorder.flush();
      await activity.flush();
    },
    lagMs,
    checkpointMs: config.checkpointMs,
    onDone: (task, ms) => metrics.rests.observe({ task }, ms / 1000),
  });
  const following = createFollowing({
    store,
    lifecycle,
    activity,
    background,
    recorder,
    graceMs: config.runGraceMs,
  });
  const executions = createExecutions({ store, lifecycle, activity, background, recorder, budget, following, quotas });
  const files = createFiles({ lifecycle, activity });
  const reaper = createReaper({
    driver,
    store,
    lifecycle,
    instances,
    pool,
    settlement: createSettlement({ gateway: id, store, lifecycle, following, background, recorder }),
    activity,
    background,
    budget,
    cpuQuota: createCpuQuota({
      driver,
      quotas: store.quotas,
      executions: store.executions,
      connections,
      rest: rests.rest,
      recorder,
      background,
      lagMs,
    }),
    meter,
    purges: createPurges({ store, background }),
    pulse: createPulse({ driver, boxes: store.boxes, lifecycle, connections, background, silenceMs: config.silenceMs }),
    idleness,
    sweepMs: config.sweepMs,
    lagMs,
    rests: rests.sweeper,
    givenUpMs: givenUpMs(config.startMs),
    onReap: (cause) => metrics.reaps.inc({ cause }),
    onOrphan: (kind) => metrics.leaks.inc({ kind }),
  });
  hasten = reaper.hasten;

  const leaving = new AbortController();
  const { app, endpoints } = createApp({
    log,
    store,
    background,
    keptKeys: config.keptKeys,
    metrics,
    lifecycle,
    rest: rests.rest,
    executions,
    contexts: createContexts(lifecycle, budget),
    commands,
    files,
    fileWatch: createFileWatch({ lifecycle, activity }),
    terminals: createTerminals({ lifecycle, activity, quotas }),
    tickets: createTickets({ tickets: store.tickets, lifecycle }),
    packages: createPackages({ lifecycle, commands, budget }),
    ports: createPorts({ lifecycle, activity, answerMs: config.portsAnswerMs }),
    portSessions: createPortSessions(store.portSessions),
    portsDomain: config.portsDomain,
    findKey: quotas.noting(store.keys.find),
    usage: store.usage,
    admin: {
      tenants: store.tenants,
      apiKeys: store.apiKeys,
      audit: store.audit,
      defaultQuotas: config.defaultQuotas,
    },
    adminKey: config.adminKey,
    adminPort: config.adminPort,
    trustedProxies: config.trustedProxies,
    stats: createStats({ usage, lifecycle }),
    run: createRun({ lifecycle, executions, commands, files, background }),
    checkReady: async () => {
      const blobsAnswer = answersBlobs();
      await store.keys.ping();
      await driver.inspect('none', AbortSignal.timeout(5000));
      await requireFreeSpace(config.dataDir);
      return (await blobsAnswer)
        ? {}
        : { blobs: 'The blob store does not answer, or refuses: boxes cannot hibernate or come back.' };
    },
    stopping: stopping.signal,
    isTraced: config.tracing !== undefined,
    leaving: leaving.signal,
    socketCheckMs: sweepsPerSocketCheck * config.sweepMs,
  });

  const owned = stack.move();
  let servers: HttpServer[] = [];
  return {
    app,
    endpoints,
    store,
    driver,
    log,
    /** Sweeps what an earlier life left, then listens. Answers the port. */
    async start(): Promise<number> {
      await heartbeat.start();
      await pool.start();
      await reaper.start();
      owned.defer(reaper.stop);
      const server = await listen(app, config.host, config.port);
      servers = [server];
      if (config.adminPort !== undefined) servers.push(await listen(app, config.adminHost, config.adminPort));
      return server.port;
    },
    async [Symbol.asyncDispose](): Promise<void> {
      stopping.abort();
      stopBy = performance.now() + config.stopMs;
      pool.stop();
      queue.close();
      const leave = setTimeout(() => leaving.abort(), config.stopMs - Math.min(leaveMs, config.stopMs / 2));
      await Promise.all(servers.map((server) => server.close(config.stopMs)));
      clearTimeout(leave);
      await owned.disposeAsync();
    },
  };
};

export type Gateway = Awaited<ReturnType<typeof createGateway>>;

/** The configured driver; `auto` takes Docker where a daemon answers, else local processes. */
export const chooseDriver = async (
  config: Config,
  deployment: string,
  onDaemon?: (state: 'open' | 'closed', cause?: unknown) => void,
): Promise<Driver> => {
  const { dataDir, runtime, packages } = config;
  const certificates = config.caBundle === undefined ? [] : await readCertificates(config.caBundle);
  const local = () => createLocalDriver({ dataDir, deployment, packages, certificates });
  if (config.driver === 'local') return await local();
  try {
    return await createDockerDriver({
      dataDir,
      deployment,
      runtime,
      packages,
      certificates,
      ...(onDaemon && { onDaemon }),
    });
  } catch (noDocker) {
    if (config.driver === 'docker') throw noDocker;
    return await local().catch((noLocal: unknown) => {
      throw new AggregateError([noDocker, noLocal], 'Neither the docker nor the local driver works here.');
    });
  }
};
