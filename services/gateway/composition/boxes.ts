import { openBlobs } from '../../blobs/open-blobs.ts';
import { createBuilder } from '../boxes/builds/builder.ts';
import { createBuilds } from '../boxes/builds/builds.ts';
import { createCreation } from '../boxes/creation/creation.ts';
import { createExporter } from '../boxes/exports/exporter.ts';
import { createExports } from '../boxes/exports/exports.ts';
import { createAccess } from '../boxes/life/access.ts';
import type { Activity } from '../boxes/life/activity.ts';
import { createBoxUsage } from '../boxes/life/box-usage.ts';
import { createCpuBudget } from '../boxes/life/cpu-budget.ts';
import { createDirectory } from '../boxes/life/directory.ts';
import { createEndings } from '../boxes/life/endings.ts';
import { createFinalResults } from '../boxes/life/final-results.ts';
import { createRecorder } from '../boxes/life/recorder.ts';
import { createFileWatch } from '../boxes/reach/file-watch.ts';
import { createFiles } from '../boxes/reach/files.ts';
import { createJupyter } from '../boxes/reach/jupyter.ts';
import { createLinks } from '../boxes/reach/links.ts';
import { createPortSessions } from '../boxes/reach/port-sessions.ts';
import { createPorts } from '../boxes/reach/ports.ts';
import { createStats } from '../boxes/reach/stats.ts';
import { createTerminals } from '../boxes/reach/terminals.ts';
import { createTickets } from '../boxes/reach/tickets.ts';
import { createCheckpoints } from '../boxes/rest/checkpoints.ts';
import { createCommands } from '../boxes/runs/commands.ts';
import { createContexts } from '../boxes/runs/contexts.ts';
import { createExecutions } from '../boxes/runs/executions.ts';
import { createFollowing } from '../boxes/runs/following.ts';
import { createNotebooks } from '../boxes/runs/notebooks.ts';
import { createPackages } from '../boxes/runs/packages.ts';
import { createReaders } from '../boxes/runs/readers.ts';
import { createRun } from '../boxes/runs/run.ts';
import type { Template } from '../boxes/supply/templates.ts';
import { createMeter } from '../boxes/usage/meter.ts';
import { createQuotas } from '../boxes/usage/quotas.ts';
import { createVolumes } from '../boxes/volumes/volumes.ts';
import { createWebhooks } from '../boxes/webhooks/webhooks.ts';
import { createPoolMetrics } from '../http/metrics/pool-metrics.ts';
import type { Platform } from './platform.ts';
import { openRest } from './rest.ts';
import { openSupply } from './supply.ts';

export interface BoxesOptions {
  activity: Activity;
  /** How late another gateway may write the use of a box. */
  lagMs: number;
  /** Aborted when the gateway begins to stop. */
  stopping: AbortSignal;
}

/** Builds the use cases of boxes. Nothing here runs by itself. */
export const openBoxes = async (platform: Platform, { activity, stopping }: BoxesOptions) => {
  const { config, log, store, metrics, driver, connections, background, templates, ceiling } = platform;
  const recorder = createRecorder({
    executions: store.executions,
    touch: activity.writeLate,
    background,
    onFinish: metrics.executionEnded,
    onDrop: (count) => log.warn({ count }, 'too many ends of executions wait for the database: their boxes keep them'),
  });
  const meter = createMeter({ driver, usage: store.usage });
  const quotas = createQuotas(store.quotas);
  const poolMetrics = createPoolMetrics(metrics.registry, {
    templates: templates.keys(),
    ceiling,
    census: () => store.pools.census(driver.site),
    countWaiting: () => store.waiting.count(driver.site),
  });
  warnOfSmallCeiling(platform);
  const blobs = await openBlobs(config.blobs, platform.deploymentId);
  const checkpoints = createCheckpoints({ blobs, tasks: store.tasks, background });
  const supply = openSupply(platform, {
    meter,
    metrics: poolMetrics,
    fill: ({ box, blob }, server, signal) => checkpoints.give({ id: box, checkpointId: blob }, server, signal),
  });
  const { catalog, allocation, instances } = supply;
  const directory = createDirectory({ driver, boxes: store.boxes, connections });
  const finalResults = createFinalResults({ store, connections, recorder });
  const endings = createEndings({ driver, store, directory, instances, finalResults });
  const flush = async () => {
    await recorder.flush();
    await activity.flush();
  };
  const volumes = createVolumes({ driver, store: store.volumes, background });
  const { rest, ...resting } = openRest(platform, { checkpoints, supply, directory, endings, quotas, volumes, flush });
  const { wake } = rest;
  const access = createAccess({ directory, boxes: store.boxes, activity, wake });
  const creation = createCreation({
    driver,
    boxes: store.boxes,
    directory,
    endings,
    activity,
    catalog,
    allocation,
    instances,
    startMs: config.startMs,
    waitMs: config.queueMs,
    quotas,
    volumes,
    background,
    restore: checkpoints.give,
    wake,
    onClaim: poolMetrics.claimed,
  });
  const usage = createBoxUsage({ driver, endings });
  const budget = createCpuBudget({ usage, metered: store.usage, quotas });
  const graceMs = config.runGraceMs;
  const readers = createReaders(config.maxReaders);
  const commands = createCommands({ access, endings, activity, background, budget, readers, stopping, graceMs });
  const following = createFollowing({ store, directory, endings, activity, background, recorder, graceMs });
  const executions = createExecutions({
    store,
    directory,
    access,
    catalog,
    activity,
    background,
    recorder,
    budget,
    following,
    readers,
    quotas,
  });
  const files = createFiles({ access, activity });
  const { outbound, uploads } = platform;
  const exporter = createExporter({ store: store.exports, files, outbound: uploads, activity, background });
  const packages = createPackages({ access, commands });
  const builder = createBuilder({
    site: driver.site,
    builds: store.builds,
    access,
    creation,
    endings,
    rest,
    commands,
    packages,
    vault: platform.vault,
    background,
    stopping,
  });
  const { whole, stream } = createRun({ creation, endings, catalog, executions, commands, files, background });
  return {
    ...supply,
    ...resting,
    checkpoints,
    recorder,
    meter,
    quotas,
    volumes,
    directory,
    endings,
    access,
    creation,
    rest,
    budget,
    blobs,
    following,
    executions,
    commands,
    packages,
    files,
    builder,
    builds: createBuilds({ gateway: platform.id, driver, store, catalog, directory, builder, vault: platform.vault }),
    contexts: createContexts({ access, catalog, budget }),
    fileWatch: createFileWatch({ access, endings, activity }),
    terminals: createTerminals({ access, endings, activity, quotas }),
    tickets: createTickets({ tickets: store.tickets, access, seal: platform.seal }),
    notebooks: createNotebooks({ access, activity, commands }),
    ports: createPorts({ access, activity, responseMs: config.portResponseMs }),
    portSessions: createPortSessions({ sessions: store.portSessions, seal: platform.seal }),
    webhooks: createWebhooks({
      webhooks: store.webhooks,
      deliveries: store.deliveries,
      outbound,
      seal: platform.seal,
    }),
    exporter,
    exports: createExports({ store: store.exports, directory, outbound: uploads, exporter }),
    links: createLinks({ links: store.links, directory, files }),
    jupyter: createJupyter({ access, activity }),
    stats: createStats({ usage, directory }),
    run: whole,
    streamRun: stream,
  };
};

export type Boxes = Awaited<ReturnType<typeof openBoxes>>;

const warnOfSmallCeiling = ({ log, templates, ceiling }: Platform): void => {
  const total = (of: (template: Template) => number) => [...templates.values()].reduce((sum, one) => sum + of(one), 0);
  const warm = total((template) => template.warm);
  const warmMb = total((template) => template.warm * template.limits.memoryMb);
  if (warm > ceiling.instances || warmMb > ceiling.memoryMb)
    log.warn({ warm, warmMb, ceiling: { ...ceiling } }, 'the pools cannot all be filled');
};
