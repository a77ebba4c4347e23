import { mkdtemp } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Box, Context, Execution, ExecutionEvent, Problem, Ticket } from '#contract';
import { createDaemon } from '../../services/gateway/drivers/docker/daemon/daemon.ts';
import { takeBoxCensus } from '../faults/census.ts';
import {
  anyDriver,
  databaseUrl,
  eventually,
  type GatewayProcess,
  readEvents,
  startGateways,
  streamOf,
} from './harness.ts';
import { connect } from './websocket.ts';

// The coordination of gateways does not depend on the driver.
describe.each(anyDriver)('two gateways of one deployment on the %s driver', (driver) => {
  let a: GatewayProcess;
  let b: GatewayProcess;
  let box: Box;
  beforeAll(async () => {
    // Both start at the same moment on an empty folder, so that one of them creates the database and the first key for both.
    const env = { CODEBOX_DATA_DIR: await mkdtemp(join(tmpdir(), 'codebox-test-')), CODEBOX_SWEEP_SECONDS: '1' };
    [a, b] = (await startGateways(driver, 2, env)) as [GatewayProcess, GatewayProcess];
    box = await a.createBox();
  });
  afterAll(() => a?.dispose());

  const path = (rest: string) => `/v1/boxes/${box.id}/${rest}`;
  const start = (gateway: GatewayProcess, body: Record<string, unknown>, headers: Record<string, string> = {}) =>
    gateway.call(path('executions'), {
      method: 'POST',
      headers: { accept: 'application/x-ndjson', ...headers },
      body: JSON.stringify(body),
    });
  const listed = async (gateway: GatewayProcess, id: string) =>
    (await gateway.get<{ items: Execution[] }>(path('executions'))).body.items.find((item) => item.id === id);

  test('an execution started at one gateway can be read, streamed, given input and interrupted at the other', async () => {
    const code = 'name = input("who? ")\nprint("at it")\nimport time\nwhile True: time.sleep(0.1)';
    const response = await start(a, { code });
    const own = response.headers.get('content-location') ?? '';
    const events = readEvents(await b.call(`${own}/events`));
    const seen: ExecutionEvent[] = [];
    for await (const event of events) {
      seen.push(event);
      if (event.type === 'input_request') break;
    }
    expect((await b.post(`${own}/input`, { text: 'ada' })).status).toBe(204);
    const rest = readEvents(await b.call(`${own}/events?after=${seen.at(-1)?.seq}`));
    for await (const event of rest) {
      seen.push(event);
      // The interrupt must not come before the input has arrived.
      if (event.type === 'stdout') expect((await b.post(`${own}/interrupt`, {})).status).toBe(202);
    }
    expect(seen.at(-1)).toMatchObject({ type: 'done', status: 'interrupted' });
    const first = await Array.fromAsync(readEvents(response));
    expect(first).toEqual(seen);
    expect((await b.run(box.id, 'name')).text).toBe("'ada'");
  });

  test('contexts, ports and tickets of one gateway work at the other', async () => {
    const { body: context } = await a.post<Context>(path('contexts'), { language: 'python' });
    await a.run(box.id, 'own = 1', { context: context.id });
    expect((await b.run(box.id, 'own + 1', { context: context.id })).text).toBe('2');
    await b.call(path(`contexts/${context.id}`), { method: 'DELETE' });
    expect((await a.post<Problem>(path('executions'), { code: '1', context: context.id })).status).toBe(404);
    await a.post(path('commands'), { command: 'python3 -m http.server 8123 --bind 127.0.0.1', detach: true });
    await eventually(async () => (await b.call(path('ports/8123/'))).ok);
    const { body } = await a.post<Ticket>(path('tickets'), {});
    const socket = await connect(b, `${path('ws')}?ticket=${body.ticket}`, {});
    socket.sendJson({ id: '1', op: 'execute', code: '6 * 7' });
    await socket.json((message) => JSON.stringify(message).includes('"42"'));
    socket.ws.close();
    await expect(connect(a, `${path('ws')}?ticket=${body.ticket}`, {})).rejects.toMatchObject({ status: 401 });
  });

  test('a box deleted at one gateway is gone at once at the other, for every request', async () => {
    const doomed = await a.createBox();
    const own = `/v1/boxes/${doomed.id}`;
    const requests: [string, RequestInit][] = [
      ['executions', { method: 'POST', body: '{"code":"1"}' }],
      ['files/', {}],
      ['contexts', {}],
      ['commands', { method: 'POST', body: '{"command":"true"}' }],
      ['stats', {}],
    ];
    for (const [rest, init] of requests) expect((await a.call(`${own}/${rest}`, init)).ok).toBe(true);
    expect((await b.call(own, { method: 'DELETE' })).status).toBe(204);
    for (const [rest, init] of requests) {
      const refused = await a.call(`${own}/${rest}`, init);
      expect([rest, refused.status]).toEqual([rest, 410]);
    }
  });

  test('a box deleted at one gateway while the other creates it or runs code in it is removed completely, without a 5xx', async () => {
    const census = () => takeBoxCensus(a, driver === 'docker' ? { docker: createDaemon() } : {});
    const before = await census();
    const remove = async (id: string) =>
      expect((await b.call(`/v1/boxes/${id}`, { method: 'DELETE' })).status).toBe(204);
    for (const user of ['made', 'nearly made']) {
      const making = a.post<Box>('/v1/boxes', { user });
      const found = await eventually(async () => {
        const { body } = await b.get<{ items: Box[] }>(`/v1/boxes?user=${encodeURIComponent(user)}`);
        return body.items[0];
      });
      if (user === 'nearly made') await sleep(200);
      await remove(found.id);
      const made = await making;
      expect([201, 404, 409, 410]).toContain(made.status);
      await eventually(async () => (await b.get<Box>(`/v1/boxes/${found.id}`)).body.state === 'deleted');
    }
    const used = await a.createBox();
    const own = `/v1/boxes/${used.id}`;
    const running = a.post<Execution>(`${own}/executions`, { code: 'import time; time.sleep(60)' });
    const begun = async (count: number) => {
      const { body } = await b.get<{ items: Execution[] }>(`${own}/executions`);
      return body.items.length === count && body.items.some(({ status }) => status === 'running');
    };
    await eventually(() => begun(1));
    const waiting = a.post<Execution>(`${own}/executions`, { code: '1' });
    await eventually(() => begun(2));
    await remove(used.id);
    for (const { status, body } of await Promise.all([running, waiting]))
      expect([status === 410 ? 'gone' : body.status, status < 500]).toEqual([status === 410 ? 'gone' : 'lost', true]);
    const { body } = await b.get<{ items: Execution[] }>(`${own}/executions`);
    for (const { status } of body.items) expect(['lost', 'interrupted', 'killed']).toContain(status);
    await expect.poll(census, { timeout: 60_000 }).toEqual(before);
  });

  test('a reported end of a run is not changed by a delete of the box at the other gateway', async () => {
    const brief = await a.createBox();
    const { id, status } = await a.run(brief.id, '1 + 1');
    await b.call(`/v1/boxes/${brief.id}`, { method: 'DELETE' });
    const read = await b.get<Execution>(`/v1/boxes/${brief.id}/executions/${id}`);
    expect([status, read.body.status]).toEqual(['ok', 'ok']);
  });

  test('a starting gateway does not declare lost what another gateway is sending', async () => {
    const { id: ended } = await a.run(box.id, '1');
    await b.stop();
    const database = new pg.Client(await databaseUrl(a.dataDir));
    await database.connect();
    // Records executions that are not in their box: one of the living gateway, and one of a dead gateway.
    const record = (id: string, gateway: string) =>
      database.query(
        `insert into executions (id, box_id, tenant_id, language, status, timeout_ms, gateway_id, created_at)
         select $1, box_id, tenant_id, language, 'running', 60000, ${gateway}, now() - interval '5 minutes'
         from executions where id = $2`,
        [id, ended],
      );
    await record('exe-sending', 'gateway_id');
    await record('exe-unsent', "'gw-dead'");
    await b.restart();
    await eventually(async () => (await listed(b, 'exe-unsent'))?.status === 'lost');
    expect((await listed(b, 'exe-sending'))?.status).toBe('running');
    const read = await b.get<Execution>(path('executions/exe-sending'));
    expect(read.body.status).toBe('running');
    const cut = await Array.fromAsync(readEvents(await b.call(path('executions/exe-sending/events')))).catch(() => []);
    expect(cut).toEqual([]);
    await database.query("delete from executions where id = 'exe-sending'");
    await database.end();
  });

  test('both gateways share Idempotency-Keys: a request takes effect once, is replayed, and a different body is refused', async () => {
    const key = { 'idempotency-key': 'both' };
    const creates = [a, b, a, b].map((gateway) => gateway.post<Box>('/v1/boxes', { user: 'both' }, key));
    const responses = await Promise.all(creates);
    const made = responses.filter(({ status }) => status === 201);
    expect(made.length).toBeGreaterThan(0);
    expect(responses.filter(({ status }) => status !== 201).every(({ status }) => status === 409)).toBe(true);
    expect(new Set(made.map(({ body }) => body.id)).size).toBe(1);
    for (const gateway of [a, b]) {
      const again = await gateway.post<Box>('/v1/boxes', { user: 'both' }, key);
      expect([again.status, again.body.id]).toEqual([201, made[0]?.body.id]);
      expect(again.headers.get('idempotency-replayed')).toBe('true');
      expect((await gateway.post('/v1/boxes', { user: 'other' }, key)).status).toBe(422);
    }
    await b.call(`/v1/boxes/${made[0]?.body.id}`, { method: 'DELETE' });
    const code = 'import time; time.sleep(0.5); open("keyed", "a").write("k"); print(open("keyed").read())';
    const runs = await Promise.all(
      [a, b, a, b].map((gateway) =>
        gateway.post<Execution>(path('executions'), { code }, { 'idempotency-key': 'run' }),
      ),
    );
    expect(runs.every(({ status }) => status === 200 || status === 409)).toBe(true);
    expect(
      new Set(runs.filter(({ status }) => status === 200).map(({ body }) => streamOf(body.outputs, 'stdout'))),
    ).toEqual(new Set(['k\n']));
  });

  test('a box in use through one gateway is not idle for the other', async () => {
    const [used, idle] = await Promise.all([a.createBox(), a.createBox()]);
    const left = new AbortController();
    const watch = await a.call(`/v1/boxes/${used.id}/files:watch`, {
      headers: { accept: 'application/x-ndjson' },
      signal: left.signal,
    });
    for (const { id } of [used, idle]) await a.client.boxes.update(id, { idleSeconds: 1 });
    const stateOf = async ({ id }: Box) => (await b.get<Box>(`/v1/boxes/${id}`)).body.state;
    await eventually(async () => (await stateOf(idle)) === 'deleted');
    expect(await stateOf(used)).toBe('ready');
    left.abort();
    await watch.body?.cancel().catch(() => {});
    await eventually(async () => (await stateOf(used)) === 'deleted');
  });
});
