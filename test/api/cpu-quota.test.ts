import pg from 'pg';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import {
  collect,
  databaseUrl,
  drivers,
  eventually,
  mainDriver,
  type RunningGateway,
  refusal,
  startGateway,
} from './harness.ts';
import { adminKey, endTenants, makeTenant } from './operator.ts';

const limit = 1000;
const quota = { name: 'cpuSecondsPerDay', limit, used: expect.any(Number) };
const spent = { status: 'timeout', cause: { code: 'cpu_limit', detail: expect.stringContaining('today'), quota } };

describe.each(drivers)('CPU time of a day on the %s driver', (driver) => {
  // The gateway decides which box to freeze; the driver contract covers that a frozen box uses no CPU.
  const testOnce = mainDriver.includes(driver) ? test : () => {};
  let gateway: RunningGateway;
  beforeAll(async () => {
    gateway = await startGateway(driver, { CODEBOX_ADMIN_KEY: adminKey, CODEBOX_SWEEP_SECONDS: '1' });
  });
  afterAll(async () => {
    if (gateway) await endTenants(gateway);
    await gateway?.dispose();
  });

  /** Records the whole quota as used by the boxes of another user of the tenant. */
  const spend = async (tenant: string) => {
    const database = new pg.Client({ connectionString: await databaseUrl(gateway.dataDir) });
    await database.connect();
    await database.query(
      "insert into usage (tenant_id, user_id, day, cpu_ms) values ($1, 'greedy', (now() at time zone 'utc')::date, $2)",
      [tenant, limit * 1000],
    );
    await database.end();
  };

  test('runs end with their cause when the quota is spent; files and variables are kept until there is more', async () => {
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

    // Files can still be read; calls that would run code are refused.
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

  testOnce(
    'a busy background thread is ended with its kernel; a box whose server cannot end one is frozen until there is more',
    async () => {
      const { client, admin, tenant } = await makeTenant(gateway, { cpuSecondsPerDay: limit });
      const [busy, deaf] = await Promise.all([client.boxes.create(), client.boxes.create()]);
      const spin =
        'import threading\ndef spin():\n  while True: pass\nthreading.Thread(target=spin, daemon=True).start()';
      await client.executions.run(busy.id, { code: `x = 41\n${spin}` });
      const calm = await client.contexts.create(busy.id, { language: 'python' });
      const write = 'y = 42; open("kept", "w").write("here")';
      await client.executions.run(busy.id, { code: write, context: calm.id });
      // The box server is stopped once it has responded, so that it ends nothing; several processes spin, so that even on a
      // busy machine at least one gets CPU time.
      const stop = 'import os, signal, time\ntime.sleep(2)\nos.kill(os.getppid(), signal.SIGSTOP)';
      const code = `${stop}\nfor _ in range(3): os.fork()\nwhile True: pass`;
      await client.executions.run(deaf.id, { code: write });
      const run = await client.executions.start(deaf.id, { code, timeoutSeconds: 600 });
      const readKept = () => client.files.readText(deaf.id, 'kept', { signal: AbortSignal.timeout(4000) });
      await eventually(() =>
        readKept().then(
          () => false,
          () => true,
        ),
      );
      await spend(tenant.id);

      const stateOf = async (id: string) =>
        (await collect(client.contexts.list(busy.id))).find((context) => context.id === id)?.state;
      const spinner = (await collect(client.contexts.list(busy.id))).find(({ id }) => id !== calm.id);
      await eventually(async () => (await stateOf(spinner?.id ?? '')) === 'dead', 90_000);
      expect(await stateOf(calm.id)).toBe('idle');
      const zip = await client.files.archive(busy.id, '', 'zip');
      expect((await zip.arrayBuffer()).byteLength).toBeGreaterThan(0);
      const refusedCheckpoint = await refusal(client.boxes.checkpoint(deaf.id));
      expect(refusedCheckpoint).toMatchObject({ code: 'quota_exceeded', status: 429, quota });

      // Repeated requests of a caller do not postpone the freeze.
      const pause = async () => (await client.boxes.pause(deaf.id).catch(() => undefined))?.state === 'paused';
      await eventually(pause, 150_000);
      const ended = async () =>
        (await collect(client.executions.list(deaf.id))).find(
          ({ id, status }) => id === run.id && status !== 'running',
        );
      expect(await eventually(ended)).toMatchObject({ status: 'lost', cause: { code: 'cpu_limit', quota } });
      const refused = await refusal(client.boxes.resume(deaf.id));
      expect(refused).toMatchObject({ code: 'quota_exceeded', quota });
      expect(refused.retryAfterSeconds).toBeGreaterThan(0);
      expect((await client.boxes.read(busy.id)).state).toBe('ready');
      expect(await client.files.readText(busy.id, 'kept')).toBe('here');

      await admin.tenants.update(tenant.id, { quotas: { cpuSecondsPerDay: null } });
      const more = () => client.executions.run(busy.id, { code: '"x" in globals()' }).catch(() => undefined);
      expect(await eventually(more)).toMatchObject({ status: 'ok', text: 'False', stateLost: true });
      expect(await client.executions.run(busy.id, { code: 'y', context: calm.id })).toMatchObject({ text: '42' });
      await client.boxes.resume(deaf.id);
    },
    300_000,
  );
});
