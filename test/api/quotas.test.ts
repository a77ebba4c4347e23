import pg from 'pg';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type CodeBoxError, createClient, type Problem } from '#contract';
import { anyDriver, databaseUrl, eventually, lean, type RunningGateway, refusal, startGateway } from './harness.ts';
import { adminKey, endTenants, makeTenant, type SecondGateway, startSecond } from './operator.ts';
import { connect as connectTo, refusalOf } from './websocket.ts';

describe.each(anyDriver)('quotas on the %s driver', (driver) => {
  let gateway: RunningGateway;
  let other: SecondGateway;
  beforeAll(async () => {
    gateway = await startGateway(driver, { CODEBOX_ADMIN_KEY: adminKey, CODEBOX_SWEEP_SECONDS: '0.5' });
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
  /** Returns when a statement waits for a lock. In a transaction what others do would be looked at only once. */
  const isWaiting = async (statement: string) => {
    const watcher = await connect();
    const waiting = "select 1 from pg_stat_activity where wait_event_type = 'Lock' and query ilike $1";
    await eventually(async () => ((await watcher.query(waiting, [statement])).rowCount ?? 0) > 0).finally(() =>
      watcher.end(),
    );
  };
  const given = <T>(results: PromiseSettledResult<T>[]) =>
    results.filter((result) => result.status === 'fulfilled').map((result) => result.value);

  test('boxes asked for at once, of two gateways, are no more than the quota', async () => {
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
    // What is there already is not asked for.
    expect((await client.boxes.create({ user: 'ada', reuse: true })).id).toBe(again.id);
    await admin.tenants.update(tenant.id, { quotas: { boxes: null, storageMb: 2 * again.limits.diskMb } });
    const overDisk = await refusal(client.boxes.create(small));
    expect(overDisk).toMatchObject({
      code: 'quota_exceeded',
      quota: { name: 'storageMb', used: 2 * again.limits.diskMb },
    });
    for await (const box of client.boxes.list()) await client.boxes.delete(box.id);
  });

  test('executions sent at once, by two gateways, run no more than the quota, and a refused one never', async () => {
    const { client, key } = await makeTenant(gateway, { concurrentExecutions: 1 });
    const box = await client.boxes.create(lean);
    const clients = [client, createClient({ url: other.url, key })];
    // Each in a kernel of its own, where it need not wait for the others.
    const contexts = [];
    for (let i = 0; i < 4; i++) contexts.push((await client.contexts.create(box.id, { language: 'python' })).id);
    // One after the other is not at once.
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

  test('rows that two gateways write at the same moment are counted one after the other', async () => {
    const { client, tenant } = await makeTenant(gateway, { boxes: 2, concurrentExecutions: 1 });
    const box = await client.boxes.create(lean);
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

  test('the code of an execution is not sent before the quota is known to allow it', async () => {
    const { client, admin, tenant } = await makeTenant(gateway, { concurrentExecutions: 1 });
    const box = await client.boxes.create(lean);
    // Its kernel is awake, so that code that is sent runs at once.
    await client.executions.run(box.id, { language: 'bash', code: 'true' });
    await admin.tenants.update(tenant.id, { quotas: { concurrentExecutions: 0 } });
    const holder = await connect();
    await holder.query('begin');
    await holder.query('select * from quotas where tenant_id = $1 for update', [tenant.id]);
    // With an Idempotency-Key the record would come first in any case.
    const keyless = { idempotencyKey: false } as const;
    const asked = refusal(client.executions.run(box.id, { language: 'bash', code: 'touch ran' }, keyless));
    await isWaiting('insert into%executions%');
    // What was sent before would come to run before this.
    const listed = await client.commands.run(box.id, { command: 'sleep 2; ls' });
    await holder.query('commit');
    await holder.end();
    expect([listed.stdout, (await asked).code]).toEqual(['', 'quota_exceeded']);
    await client.boxes.delete(box.id);
  });

  test('a run ends with the CPU time of its day, and no other one starts', async () => {
    const { client, tenant } = await makeTenant(gateway, { cpuSecondsPerDay: 1000 });
    const box = await client.boxes.create(lean);
    // Another user's boxes have used nearly all of it.
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
    // The host's own count comes a little later.
    const refused = await eventually(() =>
      client.executions.run(box.id, { code: 'sum(range(10**6))' }).then(
        () => undefined,
        (error: CodeBoxError) => error,
      ),
    );
    expect(refused).toMatchObject({ code: 'quota_exceeded', quota: { name: 'cpuSecondsPerDay' } });
    expect(refused.retryAfterSeconds).toBeGreaterThan(0);
    expect((await refusal(client.commands.run(box.id, { command: 'true' }))).code).toBe('quota_exceeded');
    // What it has can still be had.
    expect(await client.boxes.read(box.id)).toMatchObject({ state: 'ready' });
    await client.boxes.delete(box.id);
  });

  test('requests to two gateways are let in up to the quota of the minute, and those of others always', async () => {
    const limit = 40;
    const { key } = await makeTenant(gateway, { requestsPerMinute: limit });
    const neighbour = await makeTenant(gateway);
    const ask = (url: string) => fetch(`${url}/v1/templates`, { headers: { authorization: `Bearer ${key}` } });
    // A new minute may begin in between: then once more.
    const inOneMinute = async () => {
      const minute = () => Math.floor(Date.now() / 60_000);
      const before = minute();
      const answers = await Promise.all(
        Array.from({ length: 2 * limit }, (_, i) => ask(i % 2 === 0 ? gateway.url : other.url)),
      );
      return before === minute() ? answers : [];
    };
    const answers = await eventually(async () => {
      const found = await inOneMinute();
      return found.some(({ status }) => status === 200) && found;
    }, 90_000);
    const statuses = answers.map(({ status }) => status);
    const letIn = statuses.filter((status) => status === 200).length;
    expect(letIn).toBeLessThanOrEqual(limit);
    expect(letIn).toBeGreaterThanOrEqual(limit * 0.9);
    const refused = answers.find(({ status }) => status === 429);
    expect(refused?.headers.get('ratelimit-policy')).toBe(`"requests";q=${limit};w=60`);
    expect(refused?.headers.get('ratelimit')).toMatch(/^"requests";r=0;t=\d+$/);
    expect(await refused?.json()).toMatchObject({
      code: 'quota_exceeded',
      quota: { name: 'requestsPerMinute', limit },
    });
    expect(Number(refused?.headers.get('retry-after'))).toBeGreaterThan(0);
    expect((await neighbour.client.templates.read('python')).name).toBe('python');
  });

  test('requests and sockets to a port count, and over the quota they are refused', async () => {
    const { client, admin, tenant, key } = await makeTenant(gateway, { requestsPerMinute: 10_000 });
    const box = await client.boxes.create(lean);
    const at = `/v1/boxes/${box.id}/ports/5000/`;
    const headers = { authorization: `Bearer ${key}` };
    const left = async (path: string) => {
      const told = (await fetch(`${gateway.url}${path}`, { headers })).headers;
      const [, requests, seconds] = /;r=(\d+);t=(\d+)/.exec(told.get('ratelimit') ?? '') ?? [];
      return { requests: Number(requests), seconds: Number(seconds) };
    };
    // Nothing listens there, which is told by a request that was let in. A new minute may begin in between: then once more.
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
    const told = { code: 'quota_exceeded', quota };
    const refused = await eventually(async () => {
      const answer = await fetch(`${gateway.url}${at}`, { headers });
      return answer.status === 429 && answer;
    });
    expect(Number(refused.headers.get('retry-after'))).toBeGreaterThan(0);
    expect(refused.headers.get('ratelimit')).toMatch(/^"requests";r=0;t=\d+$/);
    expect(await refused.json()).toMatchObject(told);
    expect((await fetch(`${gateway.url}${at}?ticket=${ticket}`)).status).toBe(429);
    expect(await refusalOf(gateway, at, headers)).toMatchObject({ status: 429, problem: told });
  });

  test('what is asked over a WebSocket counts as requests, and over the quota it is refused', async () => {
    const { client, admin, tenant, key } = await makeTenant(gateway, { requestsPerMinute: 10_000 });
    const box = await client.boxes.create(lean);
    await client.executions.run(box.id, { language: 'bash', code: 'true' });
    const headers = { authorization: `Bearer ${key}` };
    const socket = await connectTo(gateway, `/v1/boxes/${box.id}/ws`, headers);
    const execution = `exe-${'a'.repeat(26)}`;
    const asks = [
      { op: 'execute', language: 'bash', code: 'touch ran' },
      { op: 'input', execution, text: '' },
      { op: 'interrupt', execution },
      { op: 'attach', execution },
    ];
    let sent = 0;
    const problemsOf = async (some: typeof asks) => {
      const ids = some.map((ask) => {
        const id = `${++sent}`;
        socket.sendJson({ id, ...ask });
        return id;
      });
      const answers = await Promise.all(ids.map((id) => socket.json((message) => message.id === id)));
      return answers.map(({ problem }) => problem as Problem | undefined);
    };
    const left = async () => {
      const { headers: told } = await fetch(`${gateway.url}/v1/templates`, { headers });
      const [, requests, seconds] = /;r=(\d+);t=(\d+)/.exec(told.get('ratelimit') ?? '') ?? [];
      return { requests: Number(requests), seconds: Number(seconds) };
    };
    // A new minute may begin in between: then once more.
    const counted = await eventually(async () => {
      const before = await left();
      expect((await problemsOf(asks.slice(1))).map((problem) => problem?.code)).toEqual(Array(3).fill('not_found'));
      const after = await left();
      return after.seconds <= before.seconds && before.requests - after.requests;
    });
    expect(counted).toBe(4);

    await admin.tenants.update(tenant.id, { quotas: { requestsPerMinute: 0 } });
    await eventually(async () => (await problemsOf(asks.slice(2)))[0]?.code === 'quota_exceeded');
    for (const problem of await problemsOf(asks)) {
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
