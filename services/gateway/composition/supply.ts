import { createNotice } from '../../waiting/notice.ts';
import { createAllocation } from '../boxes/supply/allocation.ts';
import { toTemplate } from '../boxes/supply/built-templates.ts';
import { createCatalog } from '../boxes/supply/catalog.ts';
import { createInstances } from '../boxes/supply/instances.ts';
import { createLaunch, type LaunchOptions } from '../boxes/supply/launch.ts';
import { createPool } from '../boxes/supply/pool.ts';
import { createQueue } from '../boxes/supply/queue.ts';
import { createStartSlots } from '../boxes/supply/start-slots.ts';
import { createStarts, givenUpMs } from '../boxes/supply/starts.ts';
import { createTemplateLanguages } from '../boxes/supply/template-languages.ts';
import type { Meter } from '../boxes/usage/meter.ts';
import type { PoolMetrics } from '../http/metrics/pool-metrics.ts';
import type { Platform } from './platform.ts';

/** Of how many templates that tenants have built warm instances are kept. */
const maxWarmTemplates = 500;

/** Builds the parts that supply boxes with instances: the pool, the queue for room, and the allocation that chooses between them. */
export const openSupply = (
  platform: Platform,
  { meter, metrics, fill }: { meter: Meter; metrics: PoolMetrics; fill: LaunchOptions['fill'] },
) => {
  const { config, log, driver, store, connections, background, templates, ceiling } = platform;
  const { startMs, dataDir } = config;
  const { startsAtOnce, warmStartsAtOnce } = driver.capabilities;
  const { site } = driver;
  const room = createNotice();
  const starts = createStarts({ slots: createStartSlots({ place: dataDir, count: startsAtOnce }), startMs });
  const instances = createInstances({ driver, instances: store.instances, connections, meter, room });
  const languages = createTemplateLanguages({ driver, store: store.templateLanguages, background });
  const launch = createLaunch({ driver, connections, languages, fill });
  const waitMs = config.queueMs;
  const queue = createQueue({ waiting: store.waiting, site, background, instances, room, ceiling, waitMs });
  const pool = createPool({
    driver,
    pools: store.pools,
    connections,
    background,
    templates,
    built: async () => {
      const ready = await store.templates.warm('', maxWarmTemplates);
      return ready.flatMap((version) => toTemplate(templates, version) ?? []);
    },
    ceiling,
    starts,
    launch,
    givenUpMs: givenUpMs(startMs),
    startsAtOnce: warmStartsAtOnce,
    instances,
    room,
    onBreaker: ({ template, isOpen, pauseMs, error: err }) => {
      // A template of a tenant may be at fault itself, which is nothing that an operator can mend.
      if (!templates.has(template)) {
        if (isOpen) log.warn({ template, pauseMs, err }, 'a warm instance of a template of a tenant could not be made');
        return;
      }
      metrics.breaker.set({ template }, isOpen ? 1 : 0);
      if (isOpen) log.error({ template, pauseMs, err }, 'a warm instance could not be made');
      else log.info({ template }, 'warm instances can be made again');
    },
  });
  const allocation = createAllocation({
    driver,
    store,
    connections,
    instances,
    background,
    pool,
    queue,
    ceiling,
    starts,
    launch,
    onUnfit: (err) => {
      metrics.unfit.inc();
      log.warn({ err }, 'a warm instance was not fit for a box');
    },
  });
  return { catalog: createCatalog(templates, driver, languages, store.templates), instances, queue, pool, allocation };
};

export type Supply = ReturnType<typeof openSupply>;
