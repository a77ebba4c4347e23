import pg from 'pg';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { collect, databaseUrl, drivers, eventually, type RunningGateway, refusal, startGateway } from './harness.ts';
import { adminKey, endTenants, makeTenant } from './operator.ts';

const limit = 1000;
const quota = { name: 'cpuSecondsPerDay', limit, used: expect.any(Number) };
const spent = { status: 'timeout', cause: { code: 'cpu_limit', detail: expect.stringContaining('today'), quota } };

describe.each(drivers)('CPU time of a day on the %s driver', (driver) => {
  let gateway: RunningGateway;
  beforeAll(async () => {
    gateway = await startGateway(driver, { CODEBOX_ADMIN_KEY: adminKey, CODEBOX_SWEEP_SECONDS: '0.5' });
  });
  afterAll(async () => {
    if (gateway) await endTenants(gateway);
    await gateway?.dispose();
  });

  /** As if boxes of another user of the tenant had used all of it. */
  const spend = async (tenant: string) => {
    const database = new pg.Client({ connectionString: await databaseUrl(gateway.dataDir) });
    await database.connect();
    await database.query(
      "insert into usage (tenant_id, user_id, day, cpu_ms) values ($1, 'greedy', (now() at time zone 'utc')::date, $2)",
      [tenant, limit * 1000],
    );
    await database.end();
  };

  test('what runs ends when it is spent, and tells why; files and variables are there once there is more', async () => {
    const { client, admin, tenant } = await makeTenant(gateway, { cpuSecondsPerDay: limit });
    const { id } = await client.boxes.create();
    const left = 'setsid -f sleep 321';
    await client.executions.run(id, {
      code: `x = 41; import os; os.system("${left}"); open("kept", "w").write("here")`,
    });
    await client.commands.run(id, { command: left });
    const code = 'import time; time.sleep(300)';
    const start = () => client.executions.start(id, { code, timeoutSeconds: 600 });
    const runs = [await start(), await start()];
    const command = await client.commands.start(id, { command: 'sleep 322' });
    const terminal = await client.terminals.open(id);
    const neighbour = await makeTenant(gateway, { cpuSecondsPerDay: limit });
    const untouched = await neighbour.client.boxes.create();
    const sleeper = await neighbour.client.executions.start(untouched.id, { code });

    await spend(tenant.id);
    for (const run of runs)
      await eventually(async () => (await client.executions.read(id, run.id)).status !== 'running', 60_000);
    for (const run of runs) expect(await client.executions.read(id, run.id)).toMatchObject(spent);
    await eventually(async () => (await client.commands.read(id, command.id)).status !== 'running', 60_000);
    expect(await client.commands.read(id, command.id)).toMatchObject(spent);
    await eventually(async () => (await collect(client.terminals.list(id))).length === 0, 60_000);
    terminal.close();

    // What it has can still be had; what would run code is refused.
    expect(await client.files.readText(id, 'kept')).toBe('here');
    const refusals = [
      await refusal(client.executions.run(id, { code: '1' })),
      await refusal(client.contexts.create(id, { language: 'python' })),
      await refusal(client.boxes.create({ packages: ['./own.tar.gz'] })),
    ];
    for (const refused of refusals) {
      expect(refused).toMatchObject({ code: 'quota_exceeded', status: 429, quota });
      expect(refused.retryAfterSeconds).toBeGreaterThan(0);
    }
    expect((await client.boxes.read(id)).state).toBe('ready');
    expect((await neighbour.client.executions.read(untouched.id, sleeper.id)).status).toBe('running');

    await admin.tenants.update(tenant.id, { quotas: { cpuSecondsPerDay: 2 * limit } });
    const more = await eventually(() => client.executions.run(id, { code: 'x + 1' }).catch(() => undefined));
    expect(more).toMatchObject({ status: 'ok', text: '42' });
    expect((await client.commands.run(id, { command: 'pgrep -f "sleep 32[1]"' })).stdout).toBe('');
  });

  test('a box that goes on all the same is frozen until there is more', async () => {
    const { client, admin, tenant } = await makeTenant(gateway, { cpuSecondsPerDay: limit });
    const [busy, deaf] = await Promise.all([client.boxes.create(), client.boxes.create()]);
    const spin =
      'import threading\ndef spin():\n  while True: pass\nthreading.Thread(target=spin, daemon=True).start()';
    await client.executions.run(busy.id, { code: `x = 41\n${spin}` });
    // Its server stands still, so that nothing that it is told to end ends.
    const code = 'import os, signal\nos.kill(os.getppid(), signal.SIGSTOP)\nwhile True: pass';
    const run = await client.executions.start(deaf.id, { code, timeoutSeconds: 600 });
    await spend(tenant.id);
    const isPaused = async (id: string) => (await client.boxes.read(id)).state === 'paused';
    await eventually(async () => (await isPaused(busy.id)) && (await isPaused(deaf.id)), 200_000);
    const ended = await collect(client.executions.list(deaf.id));
    expect(ended.find(({ id }) => id === run.id)).toMatchObject({
      status: 'lost',
      cause: { code: 'cpu_limit', quota },
    });
    const refused = await refusal(client.boxes.resume(busy.id));
    expect(refused).toMatchObject({ code: 'quota_exceeded', quota });
    expect(refused.retryAfterSeconds).toBeGreaterThan(0);
    await admin.tenants.update(tenant.id, { quotas: { cpuSecondsPerDay: null } });
    const more = await eventually(() => client.executions.run(busy.id, { code: 'x + 1' }).catch(() => undefined));
    expect(more).toMatchObject({ status: 'ok', text: '42' });
  }, 240_000);
});
