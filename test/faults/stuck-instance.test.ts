import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pino } from 'pino';
import { afterAll, expect, test } from 'vitest';
import { type Box, createClient } from '#contract';
import { readConfig } from '../../services/gateway/config.ts';
import { createGateway } from '../../services/gateway/gateway.ts';
import { makeKey } from '../../services/gateway/http/admission/auth.ts';
import { startEmbeddedPostgres } from '../../services/postgres/embedded.ts';
import { eventually } from '../api/harness.ts';
import { createStandIns } from '../model/stand-in.ts';

const stack = new AsyncDisposableStack();
afterAll(() => stack.disposeAsync());

test('a box hibernates once its files are stored, even if its instance cannot be destroyed yet', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'codebox-stuck-'));
  stack.defer(() => rm(folder, { recursive: true, force: true }));
  const postgres = await startEmbeddedPostgres(join(folder, 'postgres'));
  stack.defer(postgres.stop);
  const { driver } = createStandIns(folder, () => 0);
  let isStuck = true;
  let tries = 0;
  const stuck = {
    ...driver,
    async destroy(id: string, signal: AbortSignal) {
      tries += 1;
      if (isStuck) throw new Error('the daemon does not do it');
      await driver.destroy(id, signal);
    },
  };
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
  await gateway.store.keys.addTenant('ten-stuck', 'stuck');
  await gateway.store.keys.add({ id, tenantId: 'ten-stuck', hash, name: 'stuck' });
  const { boxes } = createClient({ url: `http://127.0.0.1:${port}`, key });

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
