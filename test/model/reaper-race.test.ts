import { mkdtemp, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import { pino } from 'pino';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { Box, Execution } from '#contract';
import { readConfig } from '../../services/gateway/config.ts';
import { createGateway, type Gateway } from '../../services/gateway/gateway.ts';
import { makeKey } from '../../services/gateway/http/admission/auth.ts';
import { startEmbeddedPostgres } from '../../services/postgres/embedded.ts';
import { placeDatabase } from '../prepared-database.ts';
import { quickFolder } from '../quick-folder.ts';
import { randomOf, seedOf } from './random.ts';
import { createStandIns } from './stand-in.ts';

const rounds = 400;
const atOnce = 20;
const sweepSeconds = 0.1;
/** The reaper waits this long after the idle time, as another gateway may still record a use. */
const lagMs = 2 * sweepSeconds * 1000 + 2000;
const spreadMs = 15;
/** Idle time of a box, longer than a busy machine takes for the checks after its use. */
const idleSeconds = 20;
const pauseMs = 500;

const stack = new AsyncDisposableStack();
let gateways: Gateway[];
let database: pg.Pool;
let headers: Record<string, string>;
const random = randomOf(seedOf('the reaper and new executions'));
let seenBy: ReturnType<typeof createStandIns>['seenBy'];

beforeAll(async () => {
  const folder = await mkdtemp(join(quickFolder, 'codebox-race-'));
  stack.defer(() => rm(folder, { recursive: true, force: true }));
  await placeDatabase(folder);
  const postgres = await startEmbeddedPostgres(join(folder, 'postgres'));
  stack.defer(postgres.stop);
  const standIns = createStandIns(folder, () => random() * 40);
  seenBy = standIns.seenBy;
  const config = readConfig({
    CODEBOX_DATA_DIR: folder,
    DATABASE_URL: postgres.url,
    CODEBOX_PORT: '0',
    CODEBOX_MAX_BOXES: '10000',
    CODEBOX_SWEEP_SECONDS: String(sweepSeconds),
    CODEBOX_WARM_BOXES: '0',
  });
  const overrides = { driver: standIns.driver, log: pino({ level: 'silent' }) };
  gateways = [await createGateway(config, overrides), await createGateway(config, overrides)];
  for (const gateway of gateways) {
    stack.use(gateway);
    await gateway.start();
  }
  database = new pg.Pool({ connectionString: postgres.url, max: atOnce });
  stack.defer(() => database.end());
  const { key, id, hash } = makeKey();
  await gateways[0]?.store.keys.addTenant('ten-race', 'race');
  await gateways[0]?.store.keys.add({ id, tenantId: 'ten-race', hash, name: 'race' });
  headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' };
});
afterAll(() => stack.disposeAsync());

const oneOf = <T>(items: readonly T[]): T => items[Math.floor(random() * items.length)] as T;

const post = async <T>(path: string, body: unknown): Promise<{ status: number; body: T }> => {
  const response = await oneOf(gateways).app.request(path, { method: 'POST', headers, body: JSON.stringify(body) });
  return { status: response.status, body: (await response.json()) as T };
};

interface Outcome {
  status: number;
  ran: number;
}

/** Creates a box, and retries while the gateway returns 503. */
const create = async (onIdle: string): Promise<Box> => {
  for (;;) {
    const { status, body } = await post<Box>('/v1/boxes', { idleSeconds, onIdle });
    if (status === 201) return body;
    expect([status, body]).toEqual([503, expect.anything()]);
    await sleep(pauseMs);
  }
};

/** Creates a box whose idle time has just passed, and sends code to it while it is reaped. */
const race = async (): Promise<Outcome> => {
  const onIdle = oneOf(['delete', 'delete', 'pause']);
  const box = await create(onIdle);
  const { rows } = await database.query('select id from instances where box_id = $1', [box.id]);
  await database.query("update boxes set last_active_at = now() - $2 * interval '1 ms' where id = $1", [
    box.id,
    idleSeconds * 1000 + lagMs,
  ]);
  const [{ status, body }] = await Promise.all([
    sleep(random() * spreadMs).then(() => post<Execution>(`/v1/boxes/${box.id}/executions`, { code: '1' })),
    // The reaper is called in addition to the sweeps, which are too rare to race every execution.
    sleep(random() * spreadMs).then(() => oneOf(gateways).store.boxes.endOverdue('local', [box.id], atOnce, lagMs)),
  ]);
  const { ran, killed } = seenBy(rows[0]?.id);
  expect({ box: box.id, killed }).toEqual({ box: box.id, killed: [] });
  if (status === 200) {
    expect([body.status, ran.length]).toEqual(['ok', 1]);
    // The box has just been in use, so it must not have been reaped since.
    expect((await database.query('select state from boxes where id = $1', [box.id])).rows).toEqual([
      { state: 'ready' },
    ]);
  } else {
    expect({ onIdle, status }).toEqual({ onIdle: 'delete', status: 410 });
    expect(ran).toEqual([]);
  }
  return { status, ran: ran.length };
};

test(`in ${rounds} races a box that runs code is neither reaped nor frozen, and a reaped box runs no code`, async () => {
  const outcomes: Outcome[] = [];
  let begun = 0;
  const worker = async () => {
    while (begun < rounds) {
      begun += 1;
      outcomes.push(await race());
    }
  };
  await Promise.all(Array.from({ length: atOnce }, worker));
  const won = outcomes.filter(({ status }) => status === 200).length;
  process.stdout.write(`${won} times the execution was first, ${outcomes.length - won} times the reaper\n`);
  // Both sides must win at times, or there was no race.
  expect(Math.min(won, rounds - won)).toBeGreaterThan(rounds / 50);
}, 900_000);
