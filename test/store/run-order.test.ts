import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import type { ExecutionRow } from '../../services/gateway/store/box/executions.ts';
import type { Store } from '../../services/gateway/store/store.ts';
import { newId } from '../../services/postgres/id.ts';
import { newBox } from './new-box.ts';
import { most, openTestPool, pool, site } from './store-under-test.ts';

const minuteMs = 60_000;
/** What a run may take beyond its timeout. */
const slackMs = minuteMs;

let opened: Awaited<ReturnType<typeof openTestPool>>;
let store: Store;
let box: string;
let now: number;

beforeAll(async () => {
  opened = await openTestPool('gw_living');
  ({ store } = opened);
});
afterAll(() => opened?.close());
beforeEach(async () => {
  now = Date.now();
  const wanted = { site, template: pool.template, generation: null, memoryMb: pool.memoryMb };
  const begun = await store.allocation.claim(newBox('one'), wanted, most);
  const instance = begun && (await store.allocation.reserve(begun.box, { id: newId('i'), site }, most));
  if (!instance) throw new Error('the box was not written');
  const ready = { id: instance.id, address: 'unix:/none' };
  box = begun.box.id;
  await store.boxes.markReady(box, ready, { kind: 'cold', ms: 1, cpuMs: null });
});

/** Records a run as if this long ago. */
const addRun = async (agoMs: number, timeoutMs = minuteMs): Promise<ExecutionRow> => {
  const run = { id: newId('exe'), box, tenant: 'one', context: null, language: null, timeoutMs };
  await store.executions.insert(run);
  const at = new Date(now - agoMs);
  await opened.admin.query('update executions set created_at = $2 where id = $1', [run.id, at]);
  const row = await store.executions.find('one', box, run.id);
  if (!row) throw new Error('there is no such run');
  return row;
};
const end = (id: string, agoMs: number) =>
  opened.admin.query("update executions set status = 'ok', finished_at = $2 where id = $1", [
    id,
    new Date(now - agoMs),
  ]);
/** For how many minutes a run has been the first one of its box. */
const freeMinutes = async (run: ExecutionRow): Promise<number | undefined> => {
  const freeMs = await store.executions.freeForMs(run, { longestMs: 3_600_000, slackMs });
  return freeMs === undefined ? undefined : Math.round(freeMs / minuteMs);
};

test.each([0, 1, 1000])(
  'a run may be queued behind one that was recorded %i ms later, for as long as that one may take',
  async (laterMs) => {
    const queued = await addRun(10 * minuteMs);
    const first = await addRun(10 * minuteMs - laterMs, 15 * minuteMs);
    expect(await freeMinutes(queued)).toBeLessThan(0);
    await end(first.id, 2 * minuteMs);
    expect(await freeMinutes(queued)).toBe(2);
  },
);

test('a run may be queued behind one whose time limit is not recorded, for as long as the longest one', async () => {
  const queued = await addRun(10 * minuteMs);
  const beside = await addRun(10 * minuteMs);
  await opened.admin.query('update executions set timeout_ms = null where id = $1', [beside.id]);
  // An hour and the slack.
  expect(await freeMinutes(queued)).toBe(10 - 60 - slackMs / minuteMs);
});

test('a run that its box never begins is not queued for ever behind those that were recorded with it or long after it', async () => {
  const run = await addRun(10 * minuteMs);
  const beside = await addRun(10 * minuteMs, 3 * minuteMs);
  expect([await freeMinutes(run), await freeMinutes(beside)]).toEqual([6, 8]);
  await end(beside.id, 9 * minuteMs);
  const since = await addRun(9 * minuteMs, 15 * minuteMs);
  expect([await freeMinutes(run), await freeMinutes(since)]).toEqual([9, undefined]);
});
