import { givenUpMs } from '../boxes/supply/starts.ts';
import { createCpuQuota } from '../boxes/upkeep/cpu-quota.ts';
import { createPulse } from '../boxes/upkeep/pulse.ts';
import { createPurges } from '../boxes/upkeep/purges.ts';
import { createReaper } from '../boxes/upkeep/reaper.ts';
import { createSettlement } from '../boxes/upkeep/settlement.ts';
import type { Boxes, BoxesOptions } from './boxes.ts';
import type { Platform } from './platform.ts';

/** Builds what ends, counts and tends boxes by itself, from the start of the reaper on. */
export const openUpkeep = (platform: Platform, boxes: Boxes, { activity, lagMs }: BoxesOptions) => {
  const { config, id, store, metrics, driver, connections, background } = platform;
  const { lifecycle, instances, pool, following, recorder, rests, budget, meter, idleness } = boxes;
  const reaper = createReaper({
    driver,
    store,
    lifecycle,
    instances,
    pool,
    settlement: createSettlement({ gateway: id, site: driver.site, store, lifecycle, following, background, recorder }),
    activity,
    background,
    budget,
    cpuQuota: createCpuQuota({
      driver,
      lifecycle,
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
  // What happened while the driver was silent is looked at at once.
  platform.onDriverBack(reaper.hasten);
  return reaper;
};
