import { setTimeout as sleep } from 'node:timers/promises';
import type { Background } from '../../../waiting/background.ts';
import type { Driver } from '../../drivers/driver.ts';
import type { InstanceRow } from '../../store/box/instances.ts';
import type { Store } from '../../store/store.ts';
import type { Activity } from '../life/activity.ts';
import type { CpuBudget } from '../life/cpu-budget.ts';
import type { Lifecycle } from '../life/lifecycle.ts';
import type { Instances } from '../supply/instances.ts';
import type { WarmPool } from '../supply/pool.ts';
import type { Meter } from '../usage/meter.ts';
import type { CpuQuota } from './cpu-quota.ts';
import type { Idleness } from './idleness.ts';
import type { Pulse } from './pulse.ts';
import type { Purges } from './purges.ts';
import type { RestSweeper } from './rest-sweeper.ts';
import type { Settlement } from './settlement.ts';

export interface ReaperOptions {
  driver: Driver;
  store: Store;
  lifecycle: Lifecycle;
  instances: Instances;
  pool: WarmPool;
  settlement: Settlement;
  activity: Activity;
  background: Background;
  rests: RestSweeper;
  budget: CpuBudget;
  cpuQuota: CpuQuota;
  meter: Pick<Meter, 'sweep'>;
  purges: Purges;
  pulse: Pulse;
  idleness: Idleness;
  sweepMs: number;
  /** How late the use of a box by another gateway may be written. */
  lagMs: number;
  /** A box that is `creating` for longer than this is not made any more. */
  givenUpMs: number;
  onReap?: (cause: string) => void;
  onOrphan?: (kind: 'instance' | 'row') => void;
}

const batch = 16;
/** When more instances than this may have ended at once, all are looked at. */
const maxNoticed = 1000;
const budgetBatch = 16;
const reconcileEveryMs = 60_000;
const graceMs = 30_000;
/** Nobody waits longer for what an earlier life left: it is ended beside the first requests. */
const firstSweepMs = 3000;
/** Nothing runs for as long. */
const noAgeMs = 30 * 86_400_000;

/**
 * Ends what is past its time and makes the driver's world equal to the database's, both ways: at start, then every minute.
 * Any number of gateways may do so at once. Each item has a deadline of its own, and what fails is tried again next time.
 */
export const createReaper = (options: ReaperOptions) => {
  const { driver, store, lifecycle, instances, pool, settlement, activity, background, rests } = options;
  const { budget, cpuQuota, meter, purges, pulse, idleness, sweepMs, lagMs, givenUpMs } = options;
  let timer: NodeJS.Timeout | undefined;
  let reconciledAt = Number.NEGATIVE_INFINITY;
  let awayAt = Number.NEGATIVE_INFINITY;
  let isStopped = false;
  let isSettling = false;
  let settleOlderThanMs = noAgeMs;
  let budgetedUpTo = '';
  const noticed = new Set<string>();
  let isLooking = false;
  let watch: Disposable | undefined;

  const each = <T>(items: readonly T[], what: string, task: (item: T) => Promise<void>) =>
    Promise.all(items.map((item) => background.attempt(what, () => task(item))));

  const reapOverdue = async () => {
    for (let ended = batch; ended === batch; ) {
      const rows = await store.boxes.endOverdue(driver.site, await idleness(['delete'], batch), batch, lagMs);
      ended = rows.length;
      await each(rows, 'reap a box', async (box) => {
        options.onReap?.(box.cause?.code ?? 'unknown');
        await lifecycle.end(box.id, 'deleting', box.cause ?? { code: 'idle', detail: 'The box was not used.' });
      });
    }
  };

  /** Their own servers end what runs when the CPU time is spent; a box that goes on all the same is ended here. */
  const endOverspent = async () => {
    const page = await store.boxes.embodied(driver.site, { after: budgetedUpTo, limit: budgetBatch, budgeted: true });
    budgetedUpTo = page.length < budgetBatch ? '' : (page.at(-1)?.instance ?? '');
    await each(page, 'end a box past its CPU time', async (found) => {
      if (!(await budget.isOverspent(found))) return;
      options.onReap?.('cpu_limit');
      const detail = 'The box went on after it had used all its CPU time.';
      await lifecycle.end(found.box.id, 'deleting', { code: 'cpu_limit', detail });
    });
  };

  const finishDestroying = async () => {
    await store.instances.giveUp(driver.site, batch);
    const rows = await store.instances.destroying(driver.site, batch);
    await each(rows, 'destroy an instance', (row) => instances.destroy(row.id));
  };

  const failStuck = async () => {
    const rows = await store.boxes.stuckCreating(driver.site, givenUpMs + graceMs, batch);
    await each(rows, 'give up a box', async (box) => {
      options.onOrphan?.('row');
      await lifecycle.end(box.id, 'failed', { code: 'start_failed', detail: 'The box did not become ready.' });
    });
  };

  /** Read page by page; their number is bounded by the capacity. */
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
   * The executions that nobody follows, and those of a certain age. Beside the sweeps: boxes are asked, and one that does not
   * answer must not keep the reaper from the others.
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

  /** Those of these boxes are lost whose instance has ended. */
  const loseEnded = (rows: readonly InstanceRow[]) =>
    each(rows, 'record a lost box', async (row) => {
      if (!row.boxId) return;
      const cause = await lifecycle.causeOfEnd(row.id);
      if (!cause) return;
      options.onOrphan?.('row');
      await lifecycle.lose(row.boxId, row.id, cause);
    });

  const lookAtNoticed = async () => {
    while (noticed.size > 0) {
      const ids = [...noticed].slice(0, batch);
      for (const id of ids) noticed.delete(id);
      await background.attempt('look at instances that may have ended', async () =>
        loseEnded(await store.instances.runningAmong(ids)),
      );
    }
    isLooking = false;
  };

  const notice = (id?: string): void => {
    if (id === undefined || noticed.size >= maxNoticed) hasten();
    else noticed.add(id);
    if (isLooking || noticed.size === 0) return;
    isLooking = true;
    background.run('look at instances that may have ended', lookAtNoticed);
  };

  /** Has the next sweep compare the two worlds: much may have ended. */
  const hasten = (): void => {
    reconciledAt = Number.NEGATIVE_INFINITY;
  };

  const reconcile = async () => {
    // The driver first: a row is written before its instance is made and goes after it, so what is seen here without one
    // is an orphan, however young.
    const made = await driver.list(AbortSignal.timeout(60_000));
    const known = await knownInstances();
    const orphans = made.filter((instance) => !known.has(instance.id));
    await each(orphans, 'destroy an orphan', async (instance) => {
      options.onOrphan?.('instance');
      await driver.destroy(instance.id, AbortSignal.timeout(30_000));
    });
    const alive = new Set(made.filter(({ state }) => state !== 'ended').map(({ id }) => id));
    // They may have become ready between the two lists.
    await loseEnded([...known.values()].filter((row) => row.state === 'running' && !alive.has(row.id)));
    settle(graceMs);
    rests.reconcile();
  };

  const sweep = async () => {
    // A box whose use could not be written would look idle.
    const isWritten = await background.attempt('write activity', activity.flush);
    if (!isWritten) awayAt = performance.now();
    // Other gateways have the time to write what they could not either, or boxes in use there would look idle.
    const isKnown = performance.now() - awayAt > graceMs;
    let isOurs = true;
    await background.attempt('look whose site it is', async () => {
      isOurs = await store.gateways.bears(driver);
    });
    // Another place has taken it over while this gateway stood still: its boxes are not here, and not lost.
    if (!isOurs) return;
    if (isKnown) await background.attempt('reap boxes', reapOverdue);
    if (isKnown) rests.sweep();
    await background.attempt('end boxes past their CPU time', endOverspent);
    await background.attempt('count the use of boxes', meter.sweep);
    cpuQuota.sweep();
    pulse.sweep();
    await background.attempt('destroy instances', finishDestroying);
    await background.attempt('take back boxes', lifecycle.takeBack);
    await background.attempt('give up boxes', failStuck);
    await pool.tend();
    settle(noAgeMs);
    purges.sweep();
    if (performance.now() - reconciledAt < reconcileEveryMs) return;
    reconciledAt = performance.now();
    // What could not be told now is asked for at the next sweep.
    if (!(await background.attempt('reconcile', reconcile))) reconciledAt = Number.NEGATIVE_INFINITY;
  };

  const schedule = () => {
    if (isStopped) return;
    timer = setTimeout(() => background.run('sweep', () => sweep().finally(schedule)), sweepMs);
  };

  return {
    sweep,
    hasten,
    /** Sweeps once, then again and again; answers when that is done, or in a few seconds when much was left to do. */
    async start(): Promise<void> {
      watch = driver.watch?.(notice);
      const first = background.attempt('sweep', sweep);
      await Promise.race([first, sleep(firstSweepMs, undefined, { ref: false })]);
      // An execution cut off by a crash is not young any more when its gateway is back: no grace at start.
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
