import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import type { Box, Execution, ExecutionEvent } from '#contract';
import { createTokens } from '../../services/gateway/box-server/transport/endpoint.ts';
import { chooseDriver } from '../../services/gateway/composition/choose-driver.ts';
import { readConfig } from '../../services/gateway/config.ts';
import { openStore } from '../../services/gateway/store/store.ts';
import { callBox, runInBox } from '../contract/box-client.ts';
import {
  anyDriver,
  databaseUrl,
  drivers,
  eventually,
  type GatewayProcess,
  memoryOf,
  readEvents,
  startGatewayProcess,
  streamOf,
} from './harness.ts';
import { viewPool } from './pool-view.ts';

const megabyte = 1024 * 1024;

describe.each(drivers)('faults on the %s driver', (driver) => {
  // These tests do not depend on the driver.
  const testOnce = anyDriver.includes(driver) ? test : () => {};
  let gateway: GatewayProcess;
  let box: Box;
  beforeAll(async () => {
    gateway = await startGatewayProcess(driver, { CODEBOX_SWEEP_SECONDS: '1' });
    box = await gateway.createBox();
  });
  afterAll(() => gateway?.dispose());

  const start = (code: string, more = {}) =>
    gateway.call(`/v1/boxes/${box.id}/executions`, {
      method: 'POST',
      headers: { accept: 'application/x-ndjson' },
      body: JSON.stringify({ code, ...more }),
    });

  test('an execution survives a SIGKILL of its gateway: it runs once, and the restarted gateway serves it to its end', async () => {
    await gateway.run(box.id, 'x = 41');
    const code =
      'import os, time\nopen("runs", "a").write("r")\nfor i in range(12):\n  print("line", i)\n  while i == 5 and not os.path.exists("go"): time.sleep(0.05)';
    const response = await start(code);
    const events: ExecutionEvent[] = [];
    try {
      for await (const event of readEvents(response)) {
        events.push(event);
        if (streamOf(events, 'stdout').includes('line 3')) await gateway.kill('SIGKILL');
      }
    } catch {
      // The stream breaks with its gateway.
    }
    expect(events.at(-1)?.type).toBe('stdout');
    await gateway.restart();
    const location = response.headers.get('content-location') ?? '';
    expect((await gateway.get<Execution>(location)).body.status).toBe('running');
    await gateway.call(`/v1/boxes/${box.id}/files/go`, { method: 'PUT', body: '' });
    for await (const event of readEvents(await gateway.call(`${location}/events?after=${events.at(-1)?.seq}`)))
      events.push(event);
    expect(events.map((event) => event.seq)).toEqual(events.map((_, index) => index + 1));
    expect(streamOf(events, 'stdout')).toBe(Array.from({ length: 12 }, (_, i) => `line ${i}\n`).join(''));
    expect(events.at(-1)).toMatchObject({ type: 'done', status: 'ok' });
    expect((await gateway.run(box.id, 'x + 1, open("runs").read()')).text).toBe("(42, 'r')");
  });

  testOnce('an execution that ends while no gateway runs is recorded at the next start', async () => {
    const started = await gateway.post<Execution>(`/v1/boxes/${box.id}/executions`, {
      code: 'import time; time.sleep(1); print("done alone")',
      detach: true,
    });
    await gateway.kill('SIGKILL');
    await sleep(1500);
    await gateway.restart();
    const listed = await eventually(async () => {
      const { body } = await gateway.get<{ items: Execution[] }>(`/v1/boxes/${box.id}/executions?limit=1`);
      return body.items[0]?.status !== 'running' && body.items[0];
    });
    expect(listed).toMatchObject({ id: started.body.id, status: 'ok' });
    const read = await gateway.get<Execution>(`/v1/boxes/${box.id}/executions/${started.body.id}`);
    expect(streamOf(read.body.outputs, 'stdout')).toBe('done alone\n');
  });

  testOnce('an execution whose journal its box has evicted is lost, while the variables are kept', async () => {
    await gateway.run(box.id, 'kept = 5');
    const path = `/v1/boxes/${box.id}/executions`;
    const code = 'import os, time\nwhile not os.path.exists("let-go"): time.sleep(0.05)\nkept += 1';
    const { body } = await gateway.post<Execution>(path, { code, detach: true });
    const large = 'display({"text/plain": "x" * 15_000_000}, raw=True)';
    for (let n = 0; n < 6; n++) await gateway.post(path, { code: large, detach: true });
    await using view = await viewPool(gateway, driver);
    const [{ id: instance = '' } = {}] = await view.store.instances.of(box.id);
    const { address = '' } = (await view.driver.inspect(instance, AbortSignal.timeout(60_000))) ?? {};
    const served = { id: instance, address };
    const token = createTokens((await view.store.keys.deployment('none')).secret)(instance);
    await gateway.kill('SIGKILL');
    await runInBox(served, ['touch', 'let-go'], token);
    await eventually(async () => {
      const response = await callBox(served, 'GET', `/codebox/executions/${body.id}`, undefined, token).catch(String);
      return response.includes('returned 404');
    });
    await gateway.restart();
    const lost = await eventually(async () => {
      const { body: read } = await gateway.get<Execution>(`${path}/${body.id}`);
      return read.status !== 'running' && read;
    });
    expect(lost).toMatchObject({ status: 'lost', cause: { code: 'journal_lost' }, stateLost: false });
    expect((await gateway.run(box.id, 'kept')).text).toBe('6');
  });

  testOnce(
    'code that never reached its box is recorded as not started, and a retry of its request runs it once',
    async () => {
      onTestFinished(async () => {
        await gateway.stop();
        await gateway.restart({ CODEBOX_SWEEP_SECONDS: '1' });
      });
      const path = `/v1/boxes/${box.id}/executions`;
      const waiting = `select from pg_locks where locktype = 'advisory' and not granted`;
      // A gateway that stops in order still records that the request failed, unlike one that dies.
      for (const key of ['abandoned', 'failed']) {
        const db = new pg.Client({ connectionString: await databaseUrl(gateway.dataDir) });
        await db.connect();
        // Blocks the gateway after it has recorded the run and before it sends the code.
        await db.query(`
      create function hold_key() returns trigger language plpgsql as
        $$ begin perform pg_advisory_xact_lock(7302); return new; end $$;
      create trigger hold_key before update on idempotency_keys for each row execute function hold_key();
      select pg_advisory_lock(7302)`);
        const send = () =>
          gateway.call(path, {
            method: 'POST',
            headers: { 'idempotency-key': key },
            body: JSON.stringify({ code: `open("${key}", "a").write("x")` }),
          });
        const sent = send().catch(() => {});
        await eventually(async () => (await db.query(waiting)).rowCount === 1);
        await gateway.kill('SIGKILL');
        await sent;
        // PostgreSQL completes the statement although its client has died.
        await db.query('select pg_advisory_unlock(7302)');
        await eventually(async () => (await db.query(waiting)).rowCount === 0);
        await db.query('drop trigger hold_key on idempotency_keys; drop function hold_key');
        if (key === 'failed') await db.query(`update idempotency_keys set status = 500 where key = 'failed'`);
        await db.end();
        // Without a sweep, the retry has to find out by itself that the code never reached the box.
        await gateway.restart({ CODEBOX_SWEEP_SECONDS: '60' });
        const ran = await eventually(async () => {
          const response = await send();
          if (response.status === 200) return (await response.json()) as Execution;
          // Until the gateway that recorded it counts as dead, its code may still be on its way.
          expect([409, 503]).toContain(response.status);
          expect(response.headers.get('retry-after')).toBe('1');
          await response.body?.cancel();
          return undefined;
        });
        expect(ran).toMatchObject({ status: 'ok' });
        expect((await gateway.run(box.id, `open("${key}").read()`)).text).toBe("'x'");
        const { body } = await gateway.get<{ items: Execution[] }>(`${path}?limit=3`);
        expect(body.items[2]).toMatchObject({ status: 'lost', cause: { code: 'not_started' } });
        const first = await gateway.get<Execution>(`${path}/${body.items[2]?.id}`);
        expect(first.body).toMatchObject({ status: 'lost', stateLost: false });
      }
    },
  );

  testOnce('SIGTERM closes streams cleanly, and they can be resumed after the next start', async () => {
    const response = await start('import time\nfor i in range(40):\n  print(i)\n  time.sleep(0.1)');
    const events: ExecutionEvent[] = [];
    const reading = (async () => {
      for await (const event of readEvents(response)) events.push(event);
    })();
    await eventually(async () => events.length > 3);
    await gateway.stop();
    await reading;
    expect(events.at(-1)?.type).toBe('stdout');
    await gateway.restart();
    for await (const event of readEvents(
      await gateway.call(`${response.headers.get('content-location')}/events?after=${events.at(-1)?.seq}`),
    ))
      events.push(event);
    expect(streamOf(events, 'stdout')).toBe(Array.from({ length: 40 }, (_, i) => `${i}\n`).join(''));
  });

  test('a box whose server is killed is detected and reported as lost', async () => {
    const doomed = await gateway.createBox();
    // Code in the box cannot kill pid 1, so it kills the box server.
    const code = 'import os, signal\nos.kill(os.getppid(), signal.SIGKILL)';
    await gateway.run(doomed.id, code);
    await eventually(async () => (await gateway.get<Box>(`/v1/boxes/${doomed.id}`)).body.state !== 'ready');
    expect((await gateway.get<Box>(`/v1/boxes/${doomed.id}`)).body).toMatchObject({
      state: 'lost',
      cause: { code: 'instance_lost' },
    });
  });

  test('at start, instances without a row are removed and boxes without an instance become lost', async () => {
    const [lost, kept] = [await gateway.createBox(), await gateway.createBox()];
    await gateway.run(kept.id, 'x = 5');
    await gateway.kill('SIGKILL');
    const store = await openStore(await databaseUrl(gateway.dataDir), () => {});
    const { id: deployment } = await store.keys.deployment('none');
    const made = await chooseDriver(
      readConfig({ CODEBOX_DATA_DIR: gateway.dataDir, CODEBOX_DRIVER: driver }),
      deployment,
    );
    const signal = AbortSignal.timeout(120_000);
    const limits = { cpus: 1, memoryMb: 256, diskMb: 64, pids: 64 };
    await made.create({ id: 'i-orphan', token: 't', image: 'codebox-box:latest', limits, network: 'none' }, signal);
    const [row] = await store.instances.of(lost.id);
    await made.destroy(row?.id ?? '', signal);
    await store.close();
    await gateway.restart();
    // On a busy machine the start does not wait for the end of the first sweep.
    await eventually(async () => (await gateway.get<Box>(`/v1/boxes/${lost.id}`)).body.state !== 'ready');
    const left = (await made.list(signal)).map((instance) => instance.id);
    expect(left).not.toContain('i-orphan');
    expect(left).not.toContain(row?.id);
    expect((await gateway.get<Box>(`/v1/boxes/${lost.id}`)).body).toMatchObject({
      state: 'lost',
      cause: { code: 'instance_lost' },
    });
    expect((await gateway.run(kept.id, 'x')).text).toBe('5');
  });

  testOnce('an endless print is ended, reports what was dropped, and hardly grows the gateway', async () => {
    await gateway.run(box.id, '1');
    const before = await memoryOf(gateway.pid());
    const flood = await gateway.run(box.id, 'while True: print("x" * 1000)', { timeoutSeconds: 10 });
    expect(['output_limit', 'timeout']).toContain(flood.status);
    const cut = flood.outputs?.find((event) => event.type === 'truncated');
    expect(cut?.droppedBytes).toBeGreaterThan(10 * megabyte);
    expect(cut?.droppedEvents).toBeGreaterThan(100);
    const after = await memoryOf(gateway.pid());
    expect((after.peak - before.now) / megabyte).toBeLessThan(64);
    expect((await gateway.run(box.id, '1+1')).text).toBe('2');
  });
});
