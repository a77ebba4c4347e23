import { setTimeout as sleep } from 'node:timers/promises';
import type { Background } from '../../../waiting/background.ts';
import type { Driver } from '../../drivers/driver.ts';
import type { InstanceRow } from '../../store/box/instances.ts';
import type { Store } from '../../store/store.ts';
import { type Due, everything } from '../../store/upkeep.ts';
import type { Builder } from '../builds/builder.ts';
import type { Creation } from '../creation/creation.ts';
import type { Exporter } from '../exports/exporter.ts';
import type { Activity } from '../life/activity.ts';
import type { Endings } from '../life/endings.ts';
import type { WarmPool } from '../supply/pool.ts';
import type { Meter } from '../usage/meter.ts';
import type { Deliverer } from '../webhooks/deliverer.ts';
import type { CpuLimit } from './cpu-limit.ts';
import type { CpuQuota } from './cpu-quota.ts';
import type { Idleness } from './idleness.ts';
import type { Pulse } from './pulse.ts';
import type { Purges } from './purges.ts';
import type { RestSweeper } from './rest-sweeper.ts';
import type { Settlement } from './settlement.ts';
import type { VolumeSweeper } from './volume-sweeper.ts';

export interface ReaperOptions {
  driver: Driver;
  store: Store;
  creation: Pick<Creation, 'reclaim'>;
  endings: Pick<Endings, 'end' | 'lose' | 'causeOfExit' | 'destroy'>;
  pool: WarmPool;
  settlement: Settlement;
  activity: Activity;
  background: Background;
  rest: RestSweeper;
  cpuLimit: CpuLimit;
  cpuQuota: CpuQuota;
  deliverer: Deliverer;
  meter: Pick<Meter, 'sweep'>;
  purges: Purges;
  builder: Pick<Builder, 'isBusy' | 'sweep'>;
  exporter: Pick<Exporter, 'sweep'>;
  volumes: VolumeSweeper;
  pulse: Pulse;
  idleness: Idleness;
  ceiling: { reread(): Promise<void> };
  sweepMs: number;
  /** How late another gateway may write the use of a box. */
  lagMs: number;
  /** A box that is `creating` for longer than this is presumed abandoned. */
  givenUpMs: number;
  onReap?: (cause: string) => void;
  onOrphan?: (kind: 'instance' | 'row') => void;
  onSweep?: (ms: number) => void;
}

const batch = 16;
/** How long a sweep waits for a batch: an instance whose host is silent takes until its deadline. */
const patienceMs = 3000;
/** When more instances than this may have ended at once, all are checked. */
const maxNoticed = 1000;
const reconcileEveryMs = 60_000;
const graceMs = 30_000;
/** How long the start waits for the first sweep, which then goes on beside the first requests. */
const firstSweepMs = 3000;
/** No run takes this long. */
const noAgeMs = 30 * 86_400_000;

/**
 * Ends boxes past their time, and reconciles the driver with the database in both directions, at start and then every minute. Any number
 * of gateways may do so at once. Each item has a deadline of its own, which may lie beyond the sweep, and failures are tried again at a later one.
 */
export const createReaper = (options: ReaperOptions) => {
  const { driver, store, creation, endings, pool, settlement, activity, background, rest } = options;
  const { cpuLimit, cpuQuota, meter, purges, builder, exporter, volumes, deliverer, pulse, idleness, ceiling } =
    options;
  const { sweepMs, lagMs, givenUpMs } = options;
  let timer: NodeJS.Timeout | undefined;
  let reconciledAt = Number.NEGATIVE_INFINITY;
  let awayAt = Number.NEGATIVE_INFINITY;
  let isStopped = false;
  let isSettling = false;
  let settleOlderThanMs = noAgeMs;
  const noticed = new Set<string>();
  /** What earlier sweeps still destroy. */
  const destroying = new Set<string>();
  let isChecking = false;
  let watch: Disposable | undefined;

  const each = <T>(items: readonly T[], what: string, task: (item: T) => Promise<void>) =>
    background.each(items, { what, patienceMs }, task);

  const reapOverdue = async () => {
    for (let ended = batch; ended === batch; ) {
      const rows = await store.boxes.endOverdue(driver.site, await idleness(['delete'], batch), batch, lagMs);
      ended = rows.length;
      await each(rows, 'reap a box', async (box) => {
        options.onReap?.(box.cause?.code ?? 'unknown');
        await endings.end(box.id, 'deleting', box.cause ?? { code: 'idle', detail: 'The box was not used.' });
      });
    }
  };

  const finishDestroying = async () => {
    await store.instances.giveUp(driver.site, batch);
    const rows = await store.instances.destroying(driver.site, batch);
    const others = rows.filter(({ id }) => !destroying.has(id));
    await each(others, 'destroy an instance', async (row) => {
      destroying.add(row.id);
      await endings.destroy(row).finally(() => destroying.delete(row.id));
    });
  };

  const failStuck = async () => {
    const rows = await store.boxes.stuckCreating(driver.site, givenUpMs + graceMs, batch);
    await each(rows, 'give up a box', async (box) => {
      options.onOrphan?.('row');
      await endings.end(box.id, 'failed', { code: 'start_failed', detail: 'The box did not become ready.' });
    });
  };

  /** Reads all instances of the site, page by page. Their number is bounded by the capacity. */
  const knownInstances = async (): Promise<Map<string, InstanceRow>> => {
    const known = new Map<string, InstanceRow>();
    const pageSize = 500;
    for (let after = ''; ; ) {
      const page = await store.instances.after(driver.site, after, pageSize);
      for (const row of page) known.set(row.id, row);
      const last = page.at(-1);
      if (page.length < pageSize || !last) return known;
      after = last.id;
    }
  };

  /**
   * Settles executions that nobody follows, and those older than this. It calls boxes, so it does not hold up the sweeps.
   */
  const settle = (olderThanMs: number) => {
    settleOlderThanMs = Math.min(settleOlderThanMs, olderThanMs);
    if (isSettling) return;
    isSettling = true;
    const ms = settleOlderThanMs;
    settleOlderThanMs = noAgeMs;
    background.run('settle executions', () =>
      settlement(ms).finally(() => {
        isSettling = false;
      }),
    );
  };

  /** Ends boxes as lost whose instance has ended. */
  const loseEnded = (rows: readonly InstanceRow[]) =>
    each(rows, 'record a lost box', async (row) => {
      if (!row.boxId) return;
      const cause = await endings.causeOfExit(row.id);
      if (!cause) return;
      options.onOrphan?.('row');
      await endings.lose(row.boxId, row.id, cause);
    });

  const checkNoticed = async () => {
    while (noticed.size > 0) {
      const ids = [...noticed].slice(0, batch);
      for (const id of ids) noticed.delete(id);
      await background.attempt('check instances that may have ended', async () =>
        loseEnded(await store.instances.runningAmong(ids)),
      );
    }
    isChecking = false;
  };

  const notice = (id?: string): void => {
    if (id === undefined || noticed.size >= maxNoticed) reconcileNext();
    else noticed.add(id);
    if (isChecking || noticed.size === 0) return;
    isChecking = true;
    background.run('check instances that may have ended', checkNoticed);
  };

  /** Makes the next sweep reconcile. */
  const reconcileNext = (): void => {
    reconciledAt = Number.NEGATIVE_INFINITY;
  };

  const reconcile = async () => {
    // The driver is listed first. A row is written before its instance is created and removed after it, so an instance without a row
    // is an orphan, however young.
    const created = await driver.list(AbortSignal.timeout(60_000));
    const known = await knownInstances();
    const orphans = created.filter((instance) => !known.has(instance.id));
    await each(orphans, 'destroy an orphan', async (instance) => {
      options.onOrphan?.('instance');
      await driver.destroy(instance.id, AbortSignal.timeout(30_000));
    });
    const alive = new Set(created.filter(({ state }) => state !== 'ended').map(({ id }) => id));
    // An instance may have become ready between the two lists, so each is inspected again.
    await loseEnded([...known.values()].filter((row) => row.state === 'running' && !alive.has(row.id)));
    settle(graceMs);
    rest.reconcile();
    volumes.reconcile();
  };

  /** Whether the place holds the name of its site, as far as that can be found out. */
  const isOurs = async (): Promise<boolean> => {
    let isHeld = true;
    await background.attempt('check who owns the site', async () => {
      isHeld = await store.gateways.holdsSite(driver);
    });
    return isHeld;
  };

  const sweep = async () => {
    // A box whose use was not written would seem idle.
    const isWritten = await background.attempt('write activity', activity.flush);
    if (!isWritten) awayAt = performance.now();
    // Other gateways get time to write the uses that they could not write either.
    const isKnown = performance.now() - awayAt > graceMs;
    let found: Due | undefined;
    await background.attempt('find out what is due', async () => {
      found = await store.upkeep.due(driver);
    });
    const due = found ?? { ...everything, isOurs: await isOurs() };
    // Another place has taken the site over while this gateway was suspended: its boxes are elsewhere, not lost.
    if (!due.isOurs) return;
    if (due.ends && isKnown) await background.attempt('reap boxes', reapOverdue);
    if (due.rests && isKnown) rest.sweep();
    if (due.blobs && isKnown) rest.deleteBlobs();
    if (due.budgets) await background.attempt('stop boxes past their CPU time', cpuLimit.sweep);
    if (due.metering) await background.attempt('count the use of boxes', meter.sweep);
    if (due.cpuQuotas || cpuQuota.isBusy()) cpuQuota.sweep();
    if (due.probes || pulse.isBusy()) pulse.sweep();
    if (due.destructions) await background.attempt('destroy instances', finishDestroying);
    creation.reclaim();
    if (due.creations) await background.attempt('give up boxes', failStuck);
    await pool.tend(due);
    if (due.executions || settleOlderThanMs < noAgeMs) settle(noAgeMs);
    purges.sweep();
    if (due.deliveries) deliverer.sweep();
    if (due.builds || builder.isBusy()) builder.sweep();
    if (due.exports) exporter.sweep();
    if (due.volumes || volumes.isBusy()) volumes.sweep();
    if (performance.now() - reconciledAt < reconcileEveryMs) return;
    reconciledAt = performance.now();
    await background.attempt('read the capacity', ceiling.reread);
    // After a failure, the next sweep tries again.
    if (!(await background.attempt('reconcile', reconcile))) reconciledAt = Number.NEGATIVE_INFINITY;
  };

  const timedSweep = async () => {
    const startedAt = performance.now();
    await sweep();
    options.onSweep?.(performance.now() - startedAt);
  };

  const schedule = () => {
    if (isStopped) return;
    timer = setTimeout(() => background.run('sweep', () => timedSweep().finally(schedule)), sweepMs);
  };

  return {
    sweep,
    reconcileNext,
    /** Begins to sweep. Resolves after the first sweep, or after a few seconds when it takes longer. */
    async start(): Promise<void> {
      watch = driver.watch?.(notice);
      const first = background.attempt('sweep', timedSweep);
      await Promise.race([first, sleep(firstSweepMs, undefined, { ref: false })]);
      // At start there is no grace: an execution that a crash cut off is old by now.
      settle(0);
      background.run('sweep', () => first.then(schedule));
    },
    async stop(): Promise<void> {
      isStopped = true;
      watch?.[Symbol.dispose]();
      clearTimeout(timer);
      await background.attempt('write activity', activity.flush);
    },
  };
};
