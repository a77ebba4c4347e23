import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { pino } from 'pino';
import { afterAll, expect, test } from 'vitest';
import { type Box, createClient } from '#contract';
import { readConfig } from '../../services/gateway/config.ts';
import type { Driver } from '../../services/gateway/drivers/driver.ts';
import { createGateway } from '../../services/gateway/gateway.ts';
import { makeKey } from '../../services/gateway/http/admission/auth.ts';
import { startEmbeddedPostgres } from '../../services/postgres/embedded.ts';
import { eventually } from '../api/harness.ts';
import { createStandIns } from '../model/stand-in.ts';
import { placeDatabase } from '../prepared-database.ts';
import { quickFolder } from '../quick-folder.ts';

const stack = new AsyncDisposableStack();
afterAll(() => stack.disposeAsync());

/** Starts a gateway whose instances are destroyed only as `destroy` says. */
const startStuck = async (
  name: string,
  destroy: (id: string, signal: AbortSignal, end: Driver['destroy']) => Promise<void>,
) => {
  const folder = await mkdtemp(join(quickFolder, 'codebox-stuck-'));
  stack.defer(() => rm(folder, { recursive: true, force: true }));
  await placeDatabase(folder);
  const postgres = await startEmbeddedPostgres(join(folder, 'postgres'));
  stack.defer(postgres.stop);
  const { driver } = createStandIns(folder, () => 0);
  const stuck = { ...driver, destroy: (id: string, signal: AbortSignal) => destroy(id, signal, driver.destroy) };
  const config = readConfig({
    CODEBOX_DATA_DIR: folder,
    DATABASE_URL: postgres.url,
    CODEBOX_PORT: '0',
    CODEBOX_SWEEP_SECONDS: '0.1',
    CODEBOX_MAX_BOXES: '4',
    CODEBOX_WARM_BOXES: '0',
  });
  const gateway = stack.use(await createGateway(config, { driver: stuck, log: pino({ level: 'silent' }) }));
  const port = await gateway.start();
  const { key, id, hash } = makeKey();
  await gateway.store.keys.addTenant(`ten-${name}`, name);
  await gateway.store.keys.add({ id, tenantId: `ten-${name}`, hash, name });
  return { gateway, boxes: createClient({ url: `http://127.0.0.1:${port}`, key }).boxes };
};

test('a box hibernates once its files are stored, even if its instance cannot be destroyed yet', async () => {
  let isStuck = true;
  let tries = 0;
  const { gateway, boxes } = await startStuck('stuck', async (id, signal, end) => {
    tries += 1;
    if (isStuck) throw new Error('the daemon does not do it');
    await end(id, signal);
  });
  const box: Box = await boxes.create({});
  expect(await boxes.hibernate(box.id)).toMatchObject({ state: 'hibernated' });
  const before = tries;
  // The sweep keeps retrying, and meanwhile the box is restored into another instance.
  await eventually(async () => tries > before);
  expect(await boxes.resume(box.id)).toMatchObject({ state: 'ready', continuity: 'restored' });
  isStuck = false;
  await eventually(async () => (await gateway.store.instances.of(box.id)).length === 1);
  await boxes.delete(box.id);
});

test('instances that cannot be destroyed yet do not hold up the end of other boxes', async () => {
  const silent = new Set<string>();
  let most = 0;
  let waiting = 0;
  const { gateway, boxes } = await startStuck('silent', async (id, signal, end) => {
    if (!silent.has(id)) return await end(id, signal);
    most = Math.max(most, ++waiting);
    await once(signal, 'abort');
    waiting -= 1;
    throw signal.reason;
  });
  const doomed = await Promise.all([boxes.create({}), boxes.create({})]);
  for (const { id } of doomed) {
    for (const instance of await gateway.store.instances.of(id)) {
      silent.add(instance.id);
      await gateway.store.instances.abandon(instance.id);
    }
  }
  await eventually(async () => waiting === doomed.length);
  const overdue = await boxes.create({ maxLifetimeSeconds: 1 });
  await eventually(async () => (await boxes.read(overdue.id)).state === 'deleted');
  expect(most, 'an instance is destroyed once at a time').toBe(doomed.length);
});
