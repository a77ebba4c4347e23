import { readdir } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { createDaemon } from '../../services/gateway/drivers/docker/daemon/daemon.ts';
import { drivers, eventually, type GatewayProcess, memoryOf, startGatewayProcess, usualBoxes } from '../api/harness.ts';
import { type PoolView, viewPool } from '../api/pool-view.ts';
import { takeBoxCensus } from '../faults/census.ts';
import { churn } from './churn.ts';
import { countRows } from './rows.ts';
import { growth, type Reading } from './trend.ts';

const seconds = Number(process.env.CODEBOX_SOAK_SECONDS ?? 30);
const size = 2;
const settleMs = 180_000;
/** In the first minutes the heap of Node still grows to the size at which it is collected. */
const memoryLimitMiB = seconds < 600 ? 160 : 48;
const fileLimit = 12;
/** Rows that are kept for some days on purpose: one per box or run. */
const history = { boxes: 1, executions: 1 };

/** Counts the entries of a census by kind: names differ between instances, but the number of each kind must not. */
const kindsOf = (census: readonly string[]): Record<string, number> => {
  const counts: Record<string, number> = {};
  for (const line of census) {
    // A file of an instance counts by its folder, without the name.
    const kind = line.split('/i-')[0]?.split(/ (?:\/|codebox-)/)[0] ?? line;
    counts[kind] = (counts[kind] ?? 0) + 1;
  }
  return counts;
};

describe(`${seconds} seconds of boxes that come and go, two a second`, () => {
  const [driver = 'local'] = drivers;
  const docker = driver === 'docker' ? createDaemon() : undefined;
  let gateway: GatewayProcess;
  let pool: PoolView;

  beforeAll(async () => {
    gateway = await startGatewayProcess(driver, {
      ...usualBoxes,
      CODEBOX_WARM_BOXES: String(size),
      CODEBOX_MAX_BOXES: '12',
      CODEBOX_QUEUE_SECONDS: '120',
    });
    pool = await viewPool(gateway, driver);
  });
  afterAll(async () => {
    await pool?.[Symbol.asyncDispose]();
    await gateway?.dispose();
  });

  const census = async () => kindsOf(await takeBoxCensus(gateway, docker ? { docker } : {}));
  const openFiles = async () => (await readdir(`/proc/${gateway.pid()}/fd`)).length;
  const residentMiB = async () => (await memoryOf(gateway.pid())).now / 1024 ** 2;

  /** The life of one box: everything that a caller usually does. */
  const life = async (): Promise<void> => {
    const box = await gateway.client.boxes.create({ env: { MODE: 'soak' } }, { idempotencyKey: false });
    try {
      const { text } = await gateway.client.executions.run(box.id, { code: '1+1' }, { idempotencyKey: false });
      if (text !== '2') throw new Error(`1+1 gave ${text}`);
      await gateway.client.files.write(box.id, 'notes.txt', 'hello');
    } finally {
      await gateway.client.boxes.delete(box.id);
    }
  };

  const watch = async (until: { isOver: boolean }) => {
    const [memory, files]: [Reading[], Reading[]] = [[], []];
    while (!until.isOver) {
      const atMs = performance.now();
      memory.push({ atMs, value: await residentMiB() });
      files.push({ atMs, value: await openFiles() });
      await sleep(500);
    }
    return { memory, files };
  };

  test(
    'memory, open files, rows and host resources do not grow',
    async () => {
      await life();
      await pool.full(size);
      const [before, rowsBefore] = [await census(), await countRows(gateway.dataDir)];
      const run = { isOver: false };
      const [churned, { memory, files }] = await Promise.all([
        churn({ seconds, perSecond: 2, most: 8, life }).finally(() => {
          run.isOver = true;
        }),
        watch(run),
      ]);
      const summary = `${churned.lives} boxes, ${churned.leftOut} left out`;
      process.stdout.write(
        `${summary}; memory ${memory[0]?.value.toFixed(0)} to ${memory.at(-1)?.value.toFixed(0)} MiB (trend ${growth(memory).toFixed(1)}), files ${files[0]?.value} to ${files.at(-1)?.value} (trend ${growth(files).toFixed(1)})\n`,
      );
      expect(churned.failures).toEqual([]);
      expect(growth(memory), summary).toBeLessThan(memoryLimitMiB);
      expect(growth(files), summary).toBeLessThan(fileLimit);

      await pool.full(size);
      await eventually(async () => JSON.stringify(await census()) === JSON.stringify(before), settleMs).catch(() => {});
      expect(await census()).toEqual(before);
      const rows = await countRows(gateway.dataDir);
      for (const [table, count] of rows) {
        const kept = (history as Record<string, number>)[table] ?? 0;
        expect(count - (rowsBefore.get(table) ?? 0), table).toBe(kept * churned.lives);
      }
    },
    seconds * 1000 + 2 * settleMs,
  );
});
