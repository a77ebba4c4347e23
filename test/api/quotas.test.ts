import pg from 'pg';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type CodeBoxError, createClient, type Problem } from '#contract';
import { anyDriver, databaseUrl, eventually, type RunningGateway, refusal, startGateway } from './harness.ts';
import { adminKey, endTenants, makeTenant, type SecondGateway, startSecond } from './operator.ts';
import { connect as connectTo, refusalOf } from './websocket.ts';

describe.each(anyDriver)('quotas on the %s driver', (driver) => {
  let gateway: RunningGateway;
  let other: SecondGateway;
  beforeAll(async () => {
    gateway = await startGateway(driver, { CODEBOX_ADMIN_KEY: adminKey, CODEBOX_SWEEP_SECONDS: '1' });
    other = await startSecond(gateway, driver);
  });
  afterAll(async () => {
    await other?.[Symbol.asyncDispose]();
    if (gateway) await endTenants(gateway);
    await gateway?.dispose();
  });

  const refusedAmong = <T>(results: PromiseSettledResult<T>[]) =>
    results.filter((result) => result.status === 'rejected').map((result) => result.reason as CodeBoxError);
  const connect = async () => {
    const database = new pg.Client({ connectionString: await databaseUrl(gateway.dataDir) });
    await database.connect();
    return database;
  };
  /** Resolves once such a statement waits for a lock. It polls outside a transaction, which would see one snapshot only. */
  const isWaiting = async (statement: string) => {
    const watcher = await connect();
    const waiting = "select 1 from pg_stat_activity where wait_event_type = 'Lock' and query ilike $1";
    await eventually(async () => ((await watcher.query(waiting, [statement])).rowCount ?? 0) > 0).finally(() =>
      watcher.end(),
    );
  };
  const given = <T>(results: PromiseSettledResult<T>[]) =>
    results.filter((result) => result.status === 'fulfilled').map((result) => result.value);

  test('concurrent creates at two gateways make no more boxes than the quota', async () => {
    const { client, key, admin, tenant } = await makeTenant(gateway, { boxes: 2 });
    const clients = [client, createClient({ url: other.url, key })];
    const small = { limits: { memoryMb: 256 } };
    const results = await Promise.allSettled(
      [...clients, ...clients, ...clients].map((one) => one.boxes.create(small)),
    );
    const boxes = given(results);
    expect(boxes).toHaveLength(2);
    for (const error of refusedAmong(results)) {
      expect(error).toMatchObject({ code: 'quota_exceeded', status: 429, quota: { name: 'boxes', limit: 2, used: 2 } });
      expect(error.retryAfterSeconds).toBeGreaterThan(0);
    }
    await client.boxes.delete(boxes[0]?.id ?? '');
    const again = await client.boxes.create({ ...small, user: 'ada', reuse: true });
    // Reuse of an existing box takes no quota.
    expect((await client.boxes.create({ user: 'ada', reuse: true })).id).toBe(again.id);
    await admin.tenants.update(tenant.id, { quotas: { boxes: null, storageMb: 2 * again.limits.diskMb } });
    const overDisk = await refusal(client.boxes.create(small));
    expect(overDisk).toMatchObject({
      code: 'quota_exceeded',
      quota: { name: 'storageMb', used: 2 * again.limits.diskMb },
    });
    for await (const box of client.boxes.list()) await client.boxes.delete(box.id);
  });

  test('concurrent executions at two gateways stay within the quota, and a refused one never runs', async () => {
    const { client, key } = await makeTenant(gateway, { concurrentExecutions: 1 });
    const box = await client.boxes.create();
    const clients = [client, createClient({ url: other.url, key })];
    // Each execution has its own kernel, where it does not wait for the others.
    const contexts = [];
    for (let i = 0; i < 4; i++) contexts.push((await client.contexts.create(box.id, { language: 'python' })).id);
    // Sequential executions are not concurrent.
    for (const context of contexts) await client.executions.run(box.id, { code: '1', context });
    const code = 'open("ran", "a").write("x"); import time; time.sleep(2)';
    const sent = contexts.map((context, i) => (clients[i % 2] ?? client).executions.run(box.id, { code, context }));
    const results = await Promise.allSettled(sent);
    const refused = refusedAmong(results);
    expect(refused.length).toBeGreaterThan(0);
    for (const error of refused)
      expect(error).toMatchObject({
        code: 'quota_exceeded',
        quota: { name: 'concurrentExecutions', limit: 1, used: 1 },
      });
    const count = await eventually(() =>
      client.executions.run(box.id, { code: 'open("ran").read()' }).catch(() => undefined),
    );
    expect(given(results)).toHaveLength(1);
    expect(count.text).toBe("'x'");
    await client.boxes.delete(box.id);
  });

  test('the database counts rows that two gateways write concurrently one after the other', async () => {
    const { client, tenant } = await makeTenant(gateway, { boxes: 2, concurrentExecutions: 1 });
    const box = await client.boxes.create();
    const [one, two] = await Promise.all([connect(), connect()]);
    const execution = `insert into executions (id, box_id, tenant_id, status) values ($1, '${box.id}', '${tenant.id}', 'running')`;
    const copy = `insert into boxes select (jsonb_populate_record(b, jsonb_build_object('id', $1::text))).* from boxes b where id = '${box.id}'`;
    for (const statement of [execution, copy]) {
      await one.query('begin');
      await one.query(statement, ['first']);
      const second = two.query(statement, ['second']).then(
        () => 'written',
        (error: { code: string }) => error.code,
      );
      await isWaiting('insert into%');
      await one.query('commit');
      expect(await second).toBe('CBQ01');
    }
    await one.query("delete from executions where id = 'first'");
    await one.query("delete from boxes where id = 'first'");
    await Promise.all([one.end(), two.end()]);
    await client.boxes.delete(box.id);
  });

  test('the code of an execution is not sent before the quota has been checked', async () => {
    const { client, admin, tenant } = await makeTenant(gateway, { concurrentExecutions: 1 });
    const box = await client.boxes.create();
    // The kernel is started, so that code would run as soon as it is sent.
    await client.executions.run(box.id, { language: 'bash', code: 'true' });
    await admin.tenants.update(tenant.id, { quotas: { concurrentExecutions: 0 } });
    const holder = await connect();
    await holder.query('begin');
    await holder.query('select * from quotas where tenant_id = $1 for update', [tenant.id]);
    // With an Idempotency-Key the record would always be written first.
    const keyless = { idempotencyKey: false } as const;
    const refused = refusal(client.executions.run(box.id, { language: 'bash', code: 'touch ran' }, keyless));
    await isWaiting('insert into%executions%');
    // Code that had been sent would have run before this command ends.
    const listed = await client.commands.run(box.id, { command: 'sleep 2; ls' });
    await holder.query('commit');
    await holder.end();
    expect([listed.stdout, (await refused).code]).toEqual(['', 'quota_exceeded']);
    await client.boxes.delete(box.id);
  });

  test('a run ends when the daily CPU quota is spent, and no other one starts', async () => {
    const { client, tenant } = await makeTenant(gateway, { cpuSecondsPerDay: 1000 });
    const box = await client.boxes.create();
    // The boxes of another user have used nearly all of the quota.
    const database = await connect();
    await database.query(
      "insert into usage (tenant_id, user_id, day, cpu_ms) values ($1, 'greedy', (now() at time zone 'utc')::date, 999400)",
      [tenant.id],
    );
    await database.end();
    const spent = await eventually(async () => {
      const run = await client.executions.run(box.id, { code: 'while True: pass' });
      return run.cause?.code === 'cpu_limit' && run;
    });
    expect(spent.status).toBe('timeout');
    // The usage that the host reports arrives a little later.
    const refused = await eventually(() =>
      client.executions.run(box.id, { code: 'sum(range(10**6))' }).then(
        () => undefined,
        (error: CodeBoxError) => error,
      ),
    );
    expect(refused).toMatchObject({ code: 'quota_exceeded', quota: { name: 'cpuSecondsPerDay' } });
    expect(refused.retryAfterSeconds).toBeGreaterThan(0);
    expect((await refusal(client.commands.run(box.id, { command: 'true' }))).code).toBe('quota_exceeded');
    // The box itself can still be read.
    expect(await client.boxes.read(box.id)).toMatchObject({ state: 'ready' });
    await client.boxes.delete(box.id);
  });

  test('two gateways together admit requests up to the quota per minute, and other tenants are not affected', async () => {
    const limit = 40;
    const { key } = await makeTenant(gateway, { requestsPerMinute: limit });
    const neighbour = await makeTenant(gateway);
    const send = (url: string) => fetch(`${url}/v1/templates`, { headers: { authorization: `Bearer ${key}` } });
    // A new minute may begin in between; then the attempt is repeated.
    const inOneMinute = async () => {
      const minute = () => Math.floor(Date.now() / 60_000);
      const before = minute();
      const responses = await Promise.all(
        Array.from({ length: 2 * limit }, (_, i) => send(i % 2 === 0 ? gateway.url : other.url)),
      );
      return before === minute() ? responses : [];
    };
    const responses = await eventually(async () => {
      const found = await inOneMinute();
      return found.some(({ status }) => status === 200) && found;
    }, 90_000);
    const statuses = responses.map(({ status }) => status);
    const admitted = statuses.filter((status) => status === 200).length;
    expect(admitted).toBeLessThanOrEqual(limit);
    expect(admitted).toBeGreaterThanOrEqual(limit * 0.9);
    const refused = responses.find(({ status }) => status === 429);
    expect(refused?.headers.get('ratelimit-policy')).toBe(`"requests";q=${limit};w=60`);
    expect(refused?.headers.get('ratelimit')).toMatch(/^"requests";r=0;t=\d+$/);
    expect(await refused?.json()).toMatchObject({
      code: 'quota_exceeded',
      quota: { name: 'requestsPerMinute', limit },
    });
    expect(Number(refused?.headers.get('retry-after'))).toBeGreaterThan(0);
    expect((await neighbour.client.templates.read('python')).name).toBe('python');
  });

  test('requests and WebSockets to a port count against the quota, and are refused beyond it', async () => {
    const { client, admin, tenant, key } = await makeTenant(gateway, { requestsPerMinute: 10_000 });
    const box = await client.boxes.create();
    const at = `/v1/boxes/${box.id}/ports/5000/`;
    const headers = { authorization: `Bearer ${key}` };
    const left = async (path: string) => {
      const received = (await fetch(`${gateway.url}${path}`, { headers })).headers;
      const [, requests, seconds] = /;r=(\d+);t=(\d+)/.exec(received.get('ratelimit') ?? '') ?? [];
      return { requests: Number(requests), seconds: Number(seconds) };
    };
    // An admitted request gets 502, as nothing listens there. A new minute may begin in between; then the attempt is repeated.
    const counted = await eventually(async () => {
      const before = await left('/v1/templates');
      for (let n = 0; n < 5; n++) expect((await fetch(`${gateway.url}${at}`, { headers })).status).toBe(502);
      expect((await refusalOf(gateway, at, headers)).status).toBe(502);
      const after = await left('/v1/templates');
      return after.seconds <= before.seconds && before.requests - after.requests;
    });
    expect(counted).toBe(7);

    const { ticket } = await client.tickets.create(box.id);
    await admin.tenants.update(tenant.id, { quotas: { requestsPerMinute: 0 } });
    const quota = { name: 'requestsPerMinute', limit: 0, used: expect.any(Number) };
    const exceeded = { code: 'quota_exceeded', quota };
    const refused = await eventually(async () => {
      const response = await fetch(`${gateway.url}${at}`, { headers });
      return response.status === 429 && response;
    });
    expect(Number(refused.headers.get('retry-after'))).toBeGreaterThan(0);
    expect(refused.headers.get('ratelimit')).toMatch(/^"requests";r=0;t=\d+$/);
    expect(await refused.json()).toMatchObject(exceeded);
    expect((await fetch(`${gateway.url}${at}?ticket=${ticket}`)).status).toBe(429);
    expect(await refusalOf(gateway, at, headers)).toMatchObject({ status: 429, problem: exceeded });
  });

  test('operations over a WebSocket count against the request quota, and are refused beyond it', async () => {
    const { client, admin, tenant, key } = await makeTenant(gateway, { requestsPerMinute: 10_000 });
    const box = await client.boxes.create();
    await client.executions.run(box.id, { language: 'bash', code: 'true' });
    const headers = { authorization: `Bearer ${key}` };
    const socket = await connectTo(gateway, `/v1/boxes/${box.id}/ws`, headers);
    const execution = `exe-${'a'.repeat(26)}`;
    const operations = [
      { op: 'execute', language: 'bash', code: 'touch ran' },
      { op: 'input', execution, text: '' },
      { op: 'interrupt', execution },
      { op: 'attach', execution },
    ];
    let sent = 0;
    const problemsOf = async (some: typeof operations) => {
      const ids = some.map((operation) => {
        const id = `${++sent}`;
        socket.sendJson({ id, ...operation });
        return id;
      });
      const messages = await Promise.all(ids.map((id) => socket.json((message) => message.id === id)));
      return messages.map(({ problem }) => problem as Problem | undefined);
    };
    const left = async () => {
      const { headers: received } = await fetch(`${gateway.url}/v1/templates`, { headers });
      const [, requests, seconds] = /;r=(\d+);t=(\d+)/.exec(received.get('ratelimit') ?? '') ?? [];
      return { requests: Number(requests), seconds: Number(seconds) };
    };
    // A new minute may begin in between; then the attempt is repeated.
    const counted = await eventually(async () => {
      const before = await left();
      expect((await problemsOf(operations.slice(1))).map((problem) => problem?.code)).toEqual(
        Array(3).fill('not_found'),
      );
      const after = await left();
      return after.seconds <= before.seconds && before.requests - after.requests;
    });
    expect(counted).toBe(4);

    await admin.tenants.update(tenant.id, { quotas: { requestsPerMinute: 0 } });
    await eventually(async () => (await problemsOf(operations.slice(2)))[0]?.code === 'quota_exceeded');
    for (const problem of await problemsOf(operations)) {
      const quota = { name: 'requestsPerMinute', limit: 0, used: expect.any(Number) };
      expect(problem).toMatchObject({ status: 429, code: 'quota_exceeded', quota });
      expect(problem?.retryAfterSeconds).toBeGreaterThan(0);
    }
    socket.sendJson({ op: 'ping' });
    await socket.json(({ type }) => type === 'pong');
    socket.ws.close();
    await admin.tenants.update(tenant.id, { quotas: { requestsPerMinute: null } });
    await eventually(async () => (await fetch(`${gateway.url}/v1/templates`, { headers })).ok);
    expect((await client.commands.run(box.id, { command: 'ls' })).stdout).toBe('');
    await client.boxes.delete(box.id);
  });
});
