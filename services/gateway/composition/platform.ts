import { join } from 'node:path';
import { type Logger, pino } from 'pino';
import { onceThere } from '../../postgres/away.ts';
import { startEmbeddedPostgres } from '../../postgres/embedded.ts';
import { errorSerializers } from '../../postgres/error-log.ts';
import { newId } from '../../postgres/id.ts';
import { type Background, createBackground } from '../../waiting/background.ts';
import { type BoxConnections, createBoxConnections } from '../box-server/connections.ts';
import { readTemplates, type Template } from '../boxes/supply/templates.ts';
import { below, readCeiling } from '../ceiling.ts';
import type { Config } from '../config.ts';
import type { Driver } from '../drivers/driver.ts';
import { observeDriver } from '../drivers/observed-driver.ts';
import type { Dialect } from '../http/app.ts';
import { createMetrics, type Metrics } from '../http/metrics/metrics.ts';
import { requireIsolation, unmetIsolation } from '../posture.ts';
import { openStore, type Store } from '../store/store.ts';
import type { Capacity } from '../store/supply/capacity.ts';
import { traceFields } from '../tracing/span.ts';
import { chooseDriver } from './choose-driver.ts';

/** Parts that a caller brings instead of those that the configuration names. */
export interface Overrides {
  log?: Logger;
  driver?: Driver;
  /** Wires that are served beside `/v1`. */
  dialects?: readonly Dialect[];
}

/** What everything else of a gateway stands on. */
export interface Platform {
  config: Config;
  /** Of this gateway: a new one at each start. What an earlier life of it left unfinished is nobody's. */
  id: string;
  /** Of all gateways of this database. */
  deploymentId: string;
  log: Logger;
  store: Store;
  metrics: Metrics;
  driver: Driver;
  connections: BoxConnections;
  background: Background;
  templates: Map<string, Template>;
  ceiling: Capacity;
  /** Calls the listener each time that the driver's backend responds again after a silence. */
  onDriverBack: (listener: () => void) => void;
}

/** How long the driver may take to say how much room there is. */
const capacityMs = 10_000;

/**
 * Opens the database, the driver and the connections to boxes, as the configuration names them; what has to be closed again goes
 * onto the stack. Throws a `ConfigurationError` when the isolation that was asked for cannot be had.
 */
export const openPlatform = async (
  config: Config,
  overrides: Overrides,
  stack: AsyncDisposableStack,
): Promise<Platform> => {
  const log =
    overrides.log ??
    pino({ level: config.logLevel, serializers: errorSerializers, ...(config.tracing && { mixin: traceFields }) });
  if (config.tracing) {
    const { startTracing } = await import('../tracing/tracing.ts');
    stack.defer(await startTracing(config.tracing, (text) => log.warn(text)));
  }
  const id = newId('gw');
  const store = await openDatabase(config, id, log, stack);

  const given = readTemplates(config.templatesFile, config.boxImage, config.warmBoxes);
  const deployment = await onceThere(() => store.keys.deployment(newId('dep')));
  const metrics = createMetrics({
    countBoxes: store.boxes.countByState,
    database: { ping: store.keys.ping, connections: store.connections },
    languages: [...given.values()].flatMap((template) => template.languages),
  });

  const listeners: (() => void)[] = [];
  const onDaemon = (state: 'open' | 'closed', err: unknown) => {
    metrics.driverUp.set(state === 'open' ? 0 : 1);
    if (state === 'open') return log.error({ err }, 'the Docker daemon does not answer: boxes cannot be made or ended');
    log.warn('the Docker daemon answers again');
    for (const listener of listeners) listener();
  };
  const chosen = overrides.driver ?? (await chooseDriver(config, deployment.id, onDaemon));
  const driver = observeDriver(chosen, ({ call, outcome, seconds }) =>
    metrics.driverCalls.observe({ driver: chosen.kind, call, outcome }, seconds),
  );
  const ceiling = readCeiling(config, given.values(), await driver.capacity(AbortSignal.timeout(capacityMs)));
  const templates = below(ceiling, given);
  const unmet = unmetIsolation(config, driver.capabilities, templates.values());
  requireIsolation(unmet, config.unsafe, (text) => log.warn(text));
  for (const weakness of driver.capabilities.weaknesses) log.warn({ driver: driver.kind }, weakness);

  const connections = createBoxConnections({
    secret: deployment.secret,
    onFailure: (kind) => metrics.boxServerErrors.inc({ kind }),
  });
  stack.defer(connections.close);
  return {
    config,
    id,
    deploymentId: deployment.id,
    log,
    store,
    metrics,
    driver,
    connections,
    background: createBackground((what, err) => log.error({ err }, `could not ${what}`)),
    templates,
    ceiling,
    onDriverBack: (listener) => void listeners.push(listener),
  };
};

/** The configured database, or one of the gateway's own in the data folder. */
const openDatabase = async (config: Config, gateway: string, log: Logger, stack: AsyncDisposableStack) => {
  const onRestart = (event: string, err: unknown) =>
    log.warn({ err, event }, 'the embedded PostgreSQL ended by itself');
  const embedded =
    config.databaseUrl === undefined
      ? await startEmbeddedPostgres(join(config.dataDir, 'postgres'), onRestart)
      : undefined;
  if (embedded) stack.defer(embedded.stop);
  const onBroken = (err: Error) => log.warn({ err }, 'a database connection broke');
  const store = await openStore(config.databaseUrl ?? embedded?.url ?? '', onBroken, gateway);
  stack.defer(store.close);
  return store;
};
