import pg from 'pg';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { databaseUrl, drivers, eventually, type RunningGateway, startGateway } from '../api/harness.ts';
import { type PoolView, viewPool } from '../api/pool-view.ts';

// Database outages do not depend on the driver.
const driver = drivers.at(-1) ?? 'local';

let gateway: RunningGateway;
let view: PoolView;
let admin: pg.Pool;
beforeAll(async () => {
  gateway = await startGateway(driver, { CODEBOX_WARM_BOXES: '1', CODEBOX_SWEEP_SECONDS: '1' });
  view = await viewPool(gateway, driver);
  admin = new pg.Pool({ connectionString: await databaseUrl(gateway.dataDir), max: 1 });
  admin.on('error', () => {});
});
afterAll(async () => {
  await admin?.end();
  await view?.[Symbol.asyncDispose]();
  await gateway?.dispose();
});

test('a database outage while a warm instance is created leaves neither a reserved place nor an instance', async () => {
  await view.full(1);
  // Every update of the row of a new warm instance fails.
  await admin.query(`
    create function be_away() returns trigger language plpgsql as $$
    begin raise exception using errcode = '57P01', message = 'terminating connection'; end $$;
    create trigger be_away before update on instances for each row
      when (old.state = 'creating' and old.box_id is null) execute function be_away()`);
  const box = await gateway.createBox();
  await eventually(async () => gateway.output().includes('could not fill a pool'), 120_000);
  const { rows } = await admin.query("select id from instances where state = 'creating' and box_id is null");
  expect(rows).toHaveLength(1);
  await admin.query('drop trigger be_away on instances');
  await admin.query("update instances set created_at = created_at - interval '1 hour' where id = $1", [rows[0].id]);
  await view.full(1);
  const left = await view.instances();
  expect(left.map(({ id }) => id)).not.toContain(rows[0].id);
  expect(left).toHaveLength(2);
  await gateway.client.boxes.delete(box.id);
});
