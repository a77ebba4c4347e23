import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Client, Usage } from '#contract';
import { openStore } from '../../services/gateway/store/store.ts';
import {
  anyDriver,
  collect,
  databaseUrl,
  drivers,
  eventually,
  type GatewayProcess,
  startGatewayProcess,
} from './harness.ts';
import { adminKey, endTenants, makeTenant } from './operator.ts';

describe.each(drivers)('usage on the %s driver', (driver) => {
  // The driver counts only the resources of boxes.
  const testOnce = anyDriver.includes(driver) ? test : () => {};
  let gateway: GatewayProcess;
  beforeAll(async () => {
    gateway = await startGatewayProcess(driver, { CODEBOX_ADMIN_KEY: adminKey, CODEBOX_SWEEP_SECONDS: '1' });
  });
  afterAll(async () => {
    if (gateway) await endTenants(gateway);
    await gateway?.dispose();
  });

  const usageOf = async (client: Client, user: string | null): Promise<Usage | undefined> =>
    (await collect(client.usage.list())).find((day) => day.user === user);
  const executionsOf = async (client: Client, user: string | null) => (await usageOf(client, user))?.executions ?? 0;

  test('usage is counted by user and day, and visible to its tenant only', async () => {
    const { client, admin, tenant } = await makeTenant(gateway);
    const stranger = await makeTenant(gateway);
    const [box, nobodys] = await Promise.all([client.boxes.create({ user: 'ada' }), client.boxes.create()]);
    const burn = 'import time\nend = time.process_time() + 0.5\nwhile time.process_time() < end: pass';
    await client.executions.run(box.id, { code: burn });
    await client.executions.run(box.id, { code: '1/0' });
    await client.commands.run(box.id, { command: `python3 -c '${burn.replaceAll('\n', '\n')}'` });
    await client.boxes.pause(box.id);
    const secondsOf = async () => (await usageOf(client, 'ada'))?.boxSeconds ?? 0;
    const before = await secondsOf();
    // A paused box counts, as it keeps its memory.
    await eventually(async () => (await secondsOf()) > before + 1);
    await client.boxes.delete(box.id);
    await client.boxes.delete(nobodys.id);
    const ada = await eventually(async () => {
      const found = await usageOf(client, 'ada');
      return found && found.executions === 2 && found;
    });
    expect(ada).toMatchObject({ boxes: 1, executions: 2 });
    expect(ada.cpuMs).toBeGreaterThan(900);
    expect(ada.wallMs).toBeGreaterThan(400);
    expect(ada.boxSeconds).toBeGreaterThan(1);
    expect(ada.peakMemoryBytes).toBeGreaterThan(1_000_000);
    expect(await usageOf(client, null)).toMatchObject({ boxes: 1, executions: 0 });
    const mine = await collect(client.usage.list({ user: 'ada', from: ada.day, to: ada.day }));
    expect(mine).toEqual([ada]);
    expect(await collect(client.usage.list({ to: '2020-01-01' }))).toEqual([]);
    expect(await collect(admin.tenants.usage(tenant.id, { limit: 1 }))).toHaveLength(2);
    expect(await collect(stranger.client.usage.list())).toEqual([]);
  });

  testOnce('an execution and the CPU time of an instance count once, however many gateways record them', async () => {
    const { client, tenant } = await makeTenant(gateway);
    const box = await client.boxes.create();
    const { id } = await client.executions.start(box.id, { code: 'import time; time.sleep(60)' });
    const url = await databaseUrl(gateway.dataDir);
    const stores = await Promise.all([openStore(url, () => {}), openStore(url, () => {})]);
    const done = { seq: 1, type: 'done', status: 'ok', durationMs: 1, stateLost: false } as const;
    const end = { id, boxId: box.id, done, context: null, language: null };
    await Promise.all([...stores, ...stores].map((store) => store.executions.finish([end])));
    await stores[0].executions.loseAll(box.id, { code: 'x', detail: 'x' });
    expect(await executionsOf(client, null)).toBe(1);
    const instance = (await stores[0].boxes.find(tenant.id, box.id))?.instance?.id ?? '';
    const used = { instance, cpuMs: 7_000_000, peakMemoryBytes: 0 };
    await Promise.all([...stores, ...stores, ...stores].map((store) => store.usage.meter([used])));
    // CPU time before the claim is not counted.
    const counted = (await usageOf(client, null))?.cpuMs ?? 0;
    expect([counted > 6_900_000, counted <= 7_000_000]).toEqual([true, true]);
    for (const cpuMs of [5, used.cpuMs]) await stores[0].usage.meter([{ ...used, cpuMs }]);
    expect((await usageOf(client, null))?.cpuMs).toBe(counted);
    await Promise.all(stores.map((store) => store.close()));
    await client.boxes.delete(box.id);
    expect(await executionsOf(client, null)).toBe(1);
  });

  testOnce('a SIGKILL of the gateway loses no usage', async () => {
    const { client } = await makeTenant(gateway);
    const box = await client.boxes.create({ user: 'eve' });
    await client.executions.run(box.id, { code: '1' });
    await client.executions.start(box.id, { code: 'import time; time.sleep(2); sum(range(10**7))' });
    await gateway.kill('SIGKILL');
    await gateway.restart();
    await eventually(async () => (await executionsOf(client, 'eve')) === 2);
    await client.boxes.delete(box.id);
    const eve = await usageOf(client, 'eve');
    expect(eve).toMatchObject({ boxes: 1, executions: 2 });
    expect(eve?.boxSeconds).toBeGreaterThan(2);
  });
});
