import { join } from 'node:path';
import { type Logger, pino } from 'pino';
import { ConfigurationError } from '../../configuration-error.ts';
import { createOutbound, type Outbound } from '../../outbound/outbound.ts';
import { onceThere } from '../../postgres/away.ts';
import { startEmbeddedPostgres } from '../../postgres/embedded.ts';
import { errorSerializers } from '../../postgres/error-log.ts';
import { newId } from '../../postgres/id.ts';
import { createVault, type Vault } from '../../vault/vault.ts';
import { type Background, createBackground } from '../../waiting/background.ts';
import { createNotice, type Notice } from '../../waiting/notice.ts';
import { type BoxConnections, createBoxConnections } from '../box-server/connections.ts';
import { templateObstacle } from '../boxes/supply/template-obstacle.ts';
import { readTemplates, type Template } from '../boxes/supply/templates.ts';
import { deliveriesAtOnce } from '../boxes/webhooks/deliverer.ts';
import { below, type Ceiling, createCeiling } from '../ceiling.ts';
import type { Config } from '../config.ts';
import type { Driver } from '../drivers/driver.ts';
import { observeDriver } from '../drivers/observed-driver.ts';
import type { Dialect } from '../http/app.ts';
import { createMetrics, type Metrics } from '../http/metrics/metrics.ts';
import { requireIsolation, unmetIsolation } from '../posture.ts';
import { createSeal, type Seal } from '../seal.ts';
import { openStore, type Store } from '../store/store.ts';
import { traceFields } from '../tracing/span.ts';
import { chooseDriver } from './choose-driver.ts';

/** Parts that replace those of the configuration. */
export interface Overrides {
  log?: Logger;
  driver?: Driver;
  /** The dialects that are served beside `/v1`. */
  dialects?: readonly Dialect[];
}

/** The parts that everything else in a gateway uses. */
export interface Platform {
  config: Config;
  /** The id of this gateway, new at each start: unfinished work of an earlier process may be taken over by any gateway. */
  id: string;
  /** The id that all gateways of this database share. */
  deploymentId: string;
  log: Logger;
  store: Store;
  metrics: Metrics;
  driver: Driver;
  connections: BoxConnections;
  seal: Seal;
  /** Encrypts what tenants entrust to the database. */
  vault: Vault;
  /** Sends requests to hosts that tenants name. */
  outbound: Outbound;
  /** The same for files, which take long: each has a connection of its own. */
  uploads: Outbound;
  background: Background;
  templates: Map<string, Template>;
  ceiling: Ceiling;
  /** Published each time that the driver's backend responds again after a silence. */
  driverBack: Pick<Notice, 'subscribe'>;
}

/** How long the driver may take to report its capacity. */
const capacityMs = 10_000;
/** How long it may take to look for the images of all templates. */
const imageMs = 5000;

/**
 * Opens the configured database, driver and connections to boxes, and puts what has to be closed onto the stack. Throws a
 * `ConfigurationError` when the required isolation is not available.
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

  const given = readTemplates(config);
  const deployment = await onceThere(() => store.keys.deployment(newId('dep')));
  const metrics = createMetrics({
    countBoxes: store.boxes.countByState,
    database: { ping: store.keys.ping, connections: store.connections },
    languages: [...given.values()].flatMap(({ language, programs }) => [language, ...Object.keys(programs)]),
  });

  const driverBack = createNotice();
  const onBackend = (state: 'open' | 'closed', err: unknown) => {
    metrics.driverUp.set(state === 'open' ? 0 : 1);
    if (state === 'open')
      return log.error({ err }, 'the backend of the driver does not respond: boxes cannot be created or ended');
    log.warn('the backend of the driver responds again');
    driverBack.publish();
  };
  const onFork = (err?: unknown) => {
    metrics.boxForks.inc({ outcome: err === undefined ? 'ok' : 'failed' });
    if (err !== undefined) log.warn({ err }, 'a box server could not be forked: the box starts one of its own');
  };
  const chosen = overrides.driver ?? (await chooseDriver(config, deployment.id, { onBackend, onFork }));
  const driver = observeDriver(chosen, ({ call, outcome, seconds }) =>
    metrics.driverCalls.observe({ driver: chosen.kind, call, outcome }, seconds),
  );
  const ceiling = await createCeiling(config, [...given.values()], () =>
    driver.capacity(AbortSignal.timeout(capacityMs)),
  );
  const templates = below(ceiling, given);
  checkPlacements(driver, templates.values());
  const unmet = unmetIsolation(config, driver.capabilities, templates.values());
  requireIsolation(unmet, config.unsafe, (text) => log.warn(text));
  for (const weakness of driver.capabilities.weaknesses) log.warn({ driver: driver.kind }, weakness);
  warnOfObstacles(driver, templates.values(), log);
  await warnOfMissingImages(driver, templates.values(), log);

  const connections = createBoxConnections({
    secret: deployment.secret,
    onFailure: (kind) => metrics.boxServerErrors.inc({ kind }),
  });
  stack.defer(connections.close);
  // Slow webhooks at one origin do not hold up others there.
  const outbound = createOutbound(config.outboundAllow, { connections: deliveriesAtOnce });
  stack.defer(outbound.close);
  const uploads = createOutbound(config.outboundAllow, { connections: null });
  stack.defer(uploads.close);
  return {
    config,
    id,
    deploymentId: deployment.id,
    log,
    store,
    metrics,
    driver,
    connections,
    seal: createSeal(deployment.secret),
    vault: createVault(deployment.secret),
    outbound,
    uploads,
    background: createBackground((what, err) => log.error({ err }, `could not ${what}`)),
    templates,
    ceiling,
    driverBack,
  };
};

/** Throws a ConfigurationError for a template whose placement is wrong, or that has one where the driver places no boxes. */
const checkPlacements = (driver: Driver, templates: Iterable<Template>): void => {
  for (const { name, placement } of templates) {
    if (placement === undefined) continue;
    if (!driver.checkPlacement)
      throw new ConfigurationError(`Template ${name} has a placement, which the ${driver.kind} driver does not know.`);
    driver.checkPlacement(placement);
  }
};

/** A template without boxes is no reason not to start: the same templates may serve several hosts. */
const warnOfObstacles = (driver: Driver, templates: Iterable<Template>, log: Logger): void => {
  for (const template of templates) {
    const obstacle = templateObstacle(driver, template);
    if (obstacle !== undefined) log.warn({ template: template.name }, `a template has no boxes here: it ${obstacle}`);
  }
};

/** A missing image is no reason not to start: it may be built meanwhile, and the other templates work. */
const warnOfMissingImages = async (driver: Driver, templates: Iterable<Template>, log: Logger): Promise<void> => {
  const signal = AbortSignal.timeout(imageMs);
  const looks = Array.from(templates, async ({ name, image }) => {
    if (await driver.lacksImage?.(image, signal).catch(() => false))
      log.warn({ template: name, image }, 'the image of a template is missing: build or pull it, or correct its name');
  });
  await Promise.all(looks);
};

/** Opens the configured database, or an embedded one in the data folder. */
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
