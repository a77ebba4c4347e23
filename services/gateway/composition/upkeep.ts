import { givenUpMs } from '../boxes/supply/starts.ts';
import { createCpuLimit } from '../boxes/upkeep/cpu-limit.ts';
import { createCpuQuota } from '../boxes/upkeep/cpu-quota.ts';
import { createIdleness } from '../boxes/upkeep/idleness.ts';
import { createPulse } from '../boxes/upkeep/pulse.ts';
import { createPurges } from '../boxes/upkeep/purges.ts';
import { createReaper } from '../boxes/upkeep/reaper.ts';
import { createRestSweeper } from '../boxes/upkeep/rest-sweeper.ts';
import { createSettlement } from '../boxes/upkeep/settlement.ts';
import { createVolumeSweeper } from '../boxes/upkeep/volume-sweeper.ts';
import { createDeliverer } from '../boxes/webhooks/deliverer.ts';
import type { Boxes, BoxesOptions } from './boxes.ts';
import type { Platform } from './platform.ts';

/** Builds the background tasks that end, meter and maintain boxes. They run once the reaper is started. */
export const openUpkeep = (platform: Platform, boxes: Boxes, { activity, lagMs }: BoxesOptions) => {
  const { config, id, log, store, metrics, driver, connections, background } = platform;
  const { directory, endings, creation, pool, following, recorder, rest, budget, meter, commands } = boxes;
  const { site } = driver;
  const idleness = createIdleness({ site, boxes: store.boxes, connections, commands, lagMs });
  const onReap = (cause: string): void => metrics.reaps.inc({ cause });
  const reaper = createReaper({
    driver,
    store,
    creation,
    endings,
    pool,
    settlement: createSettlement({
      gateway: id,
      site,
      store,
      directory,
      endings,
      following,
      background,
      recorder,
    }),
    activity,
    background,
    cpuLimit: createCpuLimit({
      driver,
      boxes: store.boxes,
      budget,
      connections,
      endings,
      background,
      onReap,
    }),
    cpuQuota: createCpuQuota({
      driver,
      endings,
      quotas: store.quotas,
      executions: store.executions,
      connections,
      rest,
      recorder,
      background,
      lagMs,
    }),
    meter,
    purges: createPurges({ store, background }),
    builder: boxes.builder,
    exporter: boxes.exporter,
    volumes: createVolumeSweeper({
      volumes: boxes.volumes,
      background,
      onStranger(volume) {
        log.warn({ volume }, 'the database does not know a volume of this site, which stays as it is');
      },
    }),
    deliverer: createDeliverer({
      deliveries: store.deliveries,
      outbound: platform.outbound,
      seal: platform.seal,
      background,
      ...config.webhooks,
    }),
    pulse: createPulse({
      driver,
      gateway: id,
      gateways: store.gateways,
      boxes: store.boxes,
      directory,
      endings,
      connections,
      background,
      silenceMs: config.silenceMs,
    }),
    idleness,
    ceiling: platform.ceiling,
    sweepMs: config.sweepMs,
    lagMs,
    rest: createRestSweeper({
      site,
      store,
      hibernation: boxes.hibernation,
      checkpoints: boxes.checkpoints,
      background,
      idleness,
      lagMs,
      checkpointMs: config.checkpointMs,
    }),
    givenUpMs: givenUpMs(config.startMs),
    onReap,
    onOrphan: (kind) => metrics.leaks.inc({ kind }),
    onSweep: (ms) => metrics.sweeps.observe(ms / 1000),
  });
  // Reconciles at once what happened while the driver did not respond.
  platform.driverBack.subscribe(reaper.reconcileNext);
  return reaper;
};
