import { openBlobs } from '../../blobs/open-blobs.ts';
import type { BoxRef } from '../boxes/box-ref.ts';
import { createAccess } from '../boxes/life/access.ts';
import type { Activity } from '../boxes/life/activity.ts';
import { createBoxUsage } from '../boxes/life/box-usage.ts';
import { createCpuBudget } from '../boxes/life/cpu-budget.ts';
import { createLastWords } from '../boxes/life/last-words.ts';
import { createLifecycle } from '../boxes/life/lifecycle.ts';
import { createRecorder } from '../boxes/life/recorder.ts';
import { createFileWatch } from '../boxes/reach/file-watch.ts';
import { createFiles } from '../boxes/reach/files.ts';
import { createPortSessions } from '../boxes/reach/port-sessions.ts';
import { createPorts } from '../boxes/reach/ports.ts';
import { createStats } from '../boxes/reach/stats.ts';
import { createTerminals } from '../boxes/reach/terminals.ts';
import { createTickets } from '../boxes/reach/tickets.ts';
import { createCommands } from '../boxes/runs/commands.ts';
import { createContexts } from '../boxes/runs/contexts.ts';
import { createExecutions } from '../boxes/runs/executions.ts';
import { createFollowing } from '../boxes/runs/following.ts';
import { createPackages } from '../boxes/runs/packages.ts';
import { createRun } from '../boxes/runs/run.ts';
import { createSupply } from '../boxes/supply/supply.ts';
import type { Template } from '../boxes/supply/templates.ts';
import { createIdleness } from '../boxes/upkeep/idleness.ts';
import { createRests } from '../boxes/upkeep/rests.ts';
import { createMeter } from '../boxes/usage/meter.ts';
import { createQuotas } from '../boxes/usage/quotas.ts';
import { createPoolMetrics } from '../http/metrics/pool-metrics.ts';
import type { Platform } from './platform.ts';

export interface BoxesOptions {
  activity: Activity;
  /** How late the use of a box by another gateway may be written. */
  lagMs: number;
  /** Aborted when the gateway begins to stop. */
  stopping: AbortSignal;
}

/** Builds what callers do with boxes. Nothing here runs by itself. */
export const openBoxes = async (platform: Platform, { activity, lagMs, stopping }: BoxesOptions) => {
  const { config, log, store, metrics, driver, connections, background, templates, ceiling } = platform;
  const recorder = createRecorder({
    executions: store.executions,
    touch: store.boxes.touch,
    background,
    onFinish: metrics.executionEnded,
    onDrop: (count) => log.warn({ count }, 'too many ends of executions wait for the database: their boxes keep them'),
  });
  const meter = createMeter({ driver, usage: store.usage });
  const quotas = createQuotas(store.quotas);
  const poolMetrics = createPoolMetrics(metrics.registry, {
    templates: templates.keys(),
    ceilingMb: ceiling.memoryMb,
    census: () => store.pools.census(driver.site),
    countWaiting: () => store.waiting.count(driver.site),
  });
  warnOfSmallCeiling(platform);
  const supply = createSupply({
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
  // Using a box wakes it, and waking it is work on boxes: the one circle at run time.
  const wake = (ref: BoxRef) => rests.rest.wake(ref);
  const lifecycle = createLifecycle({
    driver,
    store,
    access: createAccess({ site: driver.site, store, connections, activity, wake }),
    wake,
    activity,
    templates,
    allocation: supply.allocation,
    instances: supply.instances,
    startMs: config.startMs,
    waitMs: config.queueMs,
    lastWords: createLastWords({ store, connections, recorder }),
    quotas,
    onClaim: poolMetrics.claimed,
  });
  const usage = createBoxUsage({ driver, lifecycle });
  const budget = createCpuBudget(usage, quotas);
  const graceMs = config.runGraceMs;
  const commands = createCommands({ lifecycle, activity, background, budget, stopping, graceMs });
  const idleness = createIdleness({ site: driver.site, boxes: store.boxes, connections, commands, lagMs });
  const blobs = await openBlobs(config.blobs, platform.deploymentId);
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
  const following = createFollowing({ store, lifecycle, activity, background, recorder, graceMs });
  const executions = createExecutions({ store, lifecycle, activity, background, recorder, budget, following, quotas });
  const files = createFiles({ lifecycle, activity });
  return {
    ...supply,
    recorder,
    meter,
    quotas,
    lifecycle,
    budget,
    idleness,
    blobs,
    rests,
    following,
    executions,
    commands,
    files,
    contexts: createContexts(lifecycle, budget),
    fileWatch: createFileWatch({ lifecycle, activity }),
    terminals: createTerminals({ lifecycle, activity, quotas }),
    tickets: createTickets({ tickets: store.tickets, lifecycle }),
    packages: createPackages({ lifecycle, commands, budget }),
    ports: createPorts({ lifecycle, activity, answerMs: config.portsAnswerMs }),
    portSessions: createPortSessions(store.portSessions),
    stats: createStats({ usage, lifecycle }),
    run: createRun({ lifecycle, executions, commands, files, background }),
  };
};

export type Boxes = Awaited<ReturnType<typeof openBoxes>>;

const warnOfSmallCeiling = ({ log, templates, ceiling }: Platform): void => {
  const total = (of: (template: Template) => number) => [...templates.values()].reduce((sum, one) => sum + of(one), 0);
  const warm = total((template) => template.warm);
  const warmMb = total((template) => template.warm * template.limits.memoryMb);
  if (warm > ceiling.instances || warmMb > ceiling.memoryMb)
    log.warn({ warm, warmMb, ceiling }, 'the pools cannot all be filled');
};
