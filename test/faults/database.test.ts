import { mkdtemp, rename, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Box, Execution, Problem, Run } from '#contract';
import { type EmbeddedPostgres, startEmbeddedPostgres } from '../../services/postgres/embedded.ts';
import { drivers, eventually, type GatewayProcess, startGatewayProcess, streamOf } from '../api/harness.ts';
import { familyOf, postmasterOf, signalAll } from './processes.ts';
import { startRunning, ticking } from './running.ts';

// Database outages do not depend on the driver.
const driver = drivers.at(-1) ?? 'local';
const outageMs = 20_000;

const keyed = (key: string) => ({ 'idempotency-key': key });

const isReady = async (gateway: GatewayProcess) => (await fetch(`${gateway.url}/readyz`)).ok;

/** Sends requests until the gateway detects the outage, and checks how it is reported. */
const expectOutage = async (gateway: GatewayProcess, box: Box): Promise<void> => {
  const refused = await eventually(async () => {
    const response = await gateway.call(`/v1/boxes/${box.id}`, { signal: AbortSignal.timeout(20_000) });
    return !response.ok && response;
  });
  expect(refused.status).toBe(503);
  expect(Number(refused.headers.get('retry-after'))).toBeGreaterThan(0);
  expect((await refused.json()) as Problem).toMatchObject({
    code: 'unavailable',
    detail: 'The database does not respond.',
  });
  const ready = await fetch(`${gateway.url}/readyz`, { signal: AbortSignal.timeout(20_000) });
  expect([ready.status, ((await ready.json()) as Problem).code]).toEqual([503, 'unavailable']);
  const scrape = await fetch(`${gateway.url}/metrics`, { signal: AbortSignal.timeout(20_000) });
  expect(await scrape.text()).toMatch(/^codebox_database_up 0$/m);
};

/** Resolves with the record of an execution in PostgreSQL, once it has ended there. */
const recordOf = (gateway: GatewayProcess, location: string): Promise<Execution> =>
  eventually(async () => {
    const list = location.slice(0, location.lastIndexOf('/'));
    const { body } = await gateway.get<{ items: Execution[] }>(list);
    const found = body.items.find(({ id }) => location.endsWith(id));
    return found !== undefined && found.status !== 'running' && found;
  });

/** Retries while the response has Retry-After, as clients do. */
const retried = <T extends { headers: Headers }>(send: () => Promise<T>): Promise<T> =>
  eventually(async () => {
    const response = await send();
    return response.headers.get('retry-after') === null && response;
  }, 60_000);

describe('the embedded PostgreSQL', () => {
  let gateway: GatewayProcess;
  let box: Box;
  let folder: string;
  beforeAll(async () => {
    gateway = await startGatewayProcess(driver, { CODEBOX_SWEEP_SECONDS: '1' });
    box = await gateway.createBox();
    folder = join(gateway.dataDir, 'postgres');
  });
  afterAll(() => gateway?.dispose());

  test('killed for 20 s: requests get 503, runs continue and are recorded, and the gateway restores it by itself', async () => {
    const { pid } = gateway;
    const serving = pid();
    const other = await gateway.createBox();
    const short = await startRunning(gateway, other.id, ticking(15));
    const long = await startRunning(gateway, box.id, ticking(120));
    const run = () => gateway.post<Run>('/v1/run', { language: 'bash', code: 'sleep 8; date +%N' }, keyed('outage'));
    const first = run();
    await eventually(async () => {
      const { items } = (await gateway.get<{ items: Box[] }>('/v1/boxes?state=ready')).body;
      const own = items.find(({ id }) => id !== box.id && id !== other.id);
      return own && (await gateway.get<{ items: Execution[] }>(`/v1/boxes/${own.id}/executions`)).body.items.length > 0;
    });
    // Without this file no server starts in the folder.
    const mark = join(folder, 'data/PG_VERSION');
    await rename(mark, `${mark}.away`);
    const outage = sleep(outageMs);
    signalAll(await familyOf(await postmasterOf(folder)), 'SIGKILL');
    await expectOutage(gateway, box);
    expect((await short.ended).at(-1)).toMatchObject({ type: 'done', status: 'ok' });
    const { status, body } = await first;
    expect([status, body.status]).toEqual([200, 'ok']);
    await outage;
    await expectOutage(gateway, box);
    await rename(`${mark}.away`, mark);
    await eventually(() => isReady(gateway), 30_000);
    expect((await recordOf(gateway, short.location)).status).toBe('ok');
    const events = await long.ended;
    expect(streamOf(events, 'stdout')).toBe(Array.from({ length: 120 }, (_, i) => `${i}\n`).join(''));
    expect((await recordOf(gateway, long.location)).status).toBe('ok');
    expect((await gateway.run(box.id, 'i, open("runs").read()')).text).toBe("(119, 'r')");
    // The response during the outage is replayed afterwards.
    expect((await retried(run)).body).toEqual(body);
    expect(pid()).toBe(serving);
  });

  test('killed together with its gateway: it serves again at the next start', async () => {
    const family = await familyOf(await postmasterOf(folder));
    await gateway.kill('SIGKILL');
    signalAll(family, 'SIGKILL');
    await gateway.restart();
    expect((await gateway.run(box.id, 'i')).text).toBe('119');
  });
});

test('an embedded PostgreSQL restarted by one gateway serves all gateways that used it before', async () => {
  const first = await startGatewayProcess(driver);
  try {
    const killed = await postmasterOf(join(first.dataDir, 'postgres'));
    // The first gateway is stopped, so that the second one detects the death first.
    process.kill(first.pid(), 'SIGSTOP');
    signalAll(await familyOf(killed), 'SIGKILL');
    const second = await startGatewayProcess(driver, { CODEBOX_DATA_DIR: first.dataDir }).finally(() =>
      process.kill(first.pid(), 'SIGCONT'),
    );
    try {
      for (const gateway of [first, second]) await eventually(() => isReady(gateway), 30_000);
      expect(await postmasterOf(join(first.dataDir, 'postgres'))).not.toBe(killed);
    } finally {
      await second.stop();
    }
  } finally {
    await first.dispose();
  }
});

describe('a PostgreSQL at DATABASE_URL', () => {
  let folder: string;
  let server: EmbeddedPostgres;
  let admin: pg.Pool;
  let gateway: GatewayProcess;
  let box: Box;
  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'codebox-pg-'));
    server = await startEmbeddedPostgres(folder);
    admin = new pg.Pool({ connectionString: server.url, max: 1 });
    admin.on('error', () => {});
    // An ordinary role, to which the limits of PostgreSQL apply.
    await admin.query("create role gateway login password 'secret'");
    await admin.query('create database codebox owner gateway');
    const url = new URL(server.url);
    url.pathname = '/codebox';
    [url.username, url.password] = ['gateway', 'secret'];
    gateway = await startGatewayProcess(driver, {
      CODEBOX_SWEEP_SECONDS: '1',
      DATABASE_URL: url.href,
    });
    box = await gateway.createBox();
  });
  afterAll(async () => {
    await gateway?.dispose();
    await admin?.end();
    await server?.stop();
    await rm(folder, { recursive: true, force: true });
  });

  test('that hangs: requests get 503 in time, also in transactions, and are served once it continues', async () => {
    const running = await startRunning(gateway, box.id, ticking(20));
    const many = <T>(send: () => Promise<T>) => Promise.all(Array.from({ length: 24 }, send));
    const createOnce = () => gateway.post<Box>('/v1/boxes', {}, keyed('standing'));
    // The first key makes the gateway count the keys of the tenant.
    await gateway.post(`/v1/boxes/${box.id}/executions`, { code: '1' }, keyed('first'));
    // Opens as many connections as the pool may have.
    await many(() => gateway.get(`/v1/boxes/${box.id}`));
    const family = await familyOf(await postmasterOf(folder));
    signalAll(family, 'SIGSTOP');
    try {
      const [once, ...refused] = await Promise.all([
        createOnce(),
        ...Array.from({ length: 23 }, () => gateway.post('/v1/boxes', {})),
      ]);
      expect(once.status).toBe(503);
      expect(new Set(refused.map(({ status }) => status))).toEqual(new Set([503]));
      await expectOutage(gateway, box);
      expect((await running.ended).at(-1)).toMatchObject({ type: 'done', status: 'ok' });
    } finally {
      signalAll(family, 'SIGCONT');
    }
    await eventually(() => isReady(gateway));
    expect((await recordOf(gateway, running.location)).status).toBe('ok');
    const served = await many(() => gateway.get(`/v1/boxes/${box.id}`));
    expect(new Set(served.map(({ status }) => status))).toEqual(new Set([200]));
    // Statements sent before the hang may still have taken effect, without a caller: their boxes are removed again.
    const only = await eventually(async () => {
      const { body } = await gateway.get<{ items: Box[] }>('/v1/boxes');
      return body.items.length === 1 && body.items;
    });
    expect(only.map(({ id }) => id)).toEqual([box.id]);
    const once = await retried(createOnce);
    expect(once.status).toBe(201);
    await gateway.client.boxes.delete(once.body.id);
  });

  test.each([
    [
      'refuses connections',
      'alter database codebox allow_connections false',
      'alter database codebox allow_connections true',
    ],
    ['has no connection left', 'alter role gateway connection limit 0', 'alter role gateway connection limit -1'],
  ])('that %s: requests get 503 until it accepts connections again', async (_how, close, open) => {
    await admin.query(close);
    await admin.query("select pg_terminate_backend(pid) from pg_stat_activity where datname = 'codebox'");
    await expectOutage(gateway, box);
    await admin.query(open);
    await eventually(() => isReady(gateway));
    expect((await gateway.run(box.id, '1 + 1')).text).toBe('2');
  });

  test('that is killed and restarts: requests are served again, and the gateway has survived', async () => {
    const serving = gateway.pid();
    const killed = await postmasterOf(folder);
    process.kill(killed, 'SIGKILL');
    await eventually(async () => ![0, killed].includes(await postmasterOf(folder)));
    await eventually(() => isReady(gateway));
    expect((await gateway.run(box.id, '1 + 1')).text).toBe('2');
    expect(gateway.pid()).toBe(serving);
  });

  test('that is down when the gateway stops: queued requests get 503, and the gateway exits cleanly', async () => {
    await gateway.stop();
    await gateway.restart({ CODEBOX_MAX_BOXES: '1', CODEBOX_QUEUE_SECONDS: '60', CODEBOX_STOP_SECONDS: '5' });
    const waiting = gateway.post<Problem>('/v1/boxes', {});
    await eventually(async () =>
      /^codebox_queue_waiting 1$/m.test(await (await fetch(`${gateway.url}/metrics`)).text()),
    );
    await admin.query('alter database codebox allow_connections false');
    try {
      await admin.query("select pg_terminate_backend(pid) from pg_stat_activity where datname = 'codebox'");
      await expectOutage(gateway, box);
      const [refused] = await Promise.all([waiting, gateway.stop()]);
      expect([refused.status, refused.body.code]).toEqual([503, 'unavailable']);
      expect(Number(refused.headers.get('retry-after'))).toBeGreaterThan(0);
      // Node prints this line when it exits because of an uncaught error.
      expect(gateway.output()).not.toMatch(/^Node\.js v/m);
    } finally {
      await admin.query('alter database codebox allow_connections true');
    }
  });
});
