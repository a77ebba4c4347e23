import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import type { Execution } from '#contract';
import { createTokens } from '../../services/gateway/box-server/transport/endpoint.ts';
import { anyDriver, databaseUrl, eventually, type GatewayProcess, readEvents, startGateways } from '../api/harness.ts';
import { viewPool } from '../api/pool-view.ts';
import { runInBox } from '../contract/box-client.ts';

/** What a reader may receive of a run that ends after its box was read for the last time. */
const readMs = 2000;

describe.each(anyDriver)('the end of a run that its reader gets, on the %s driver', (driver) => {
  let gateways: GatewayProcess[] = [];
  beforeAll(async () => {
    gateways = await startGateways(driver, 2);
  });
  afterAll(() => gateways[0]?.dispose());

  test('is the recorded one, also when its box is deleted and its gateway dies before it has recorded it', async () => {
    const [deleter, follower] = gateways as [GatewayProcess, GatewayProcess];
    const box = await follower.createBox();
    await using view = await viewPool(follower, driver);
    const [{ id: instance = '' } = {}] = await view.store.instances.of(box.id);
    const { address = '' } = (await view.driver.inspect(instance, AbortSignal.timeout(60_000))) ?? {};
    const token = createTokens((await view.store.keys.deployment('none')).secret)(instance);
    const db = new pg.Client({ connectionString: await databaseUrl(deleter.dataDir) });
    await db.connect();
    onTestFinished(() => db.end());
    // No sweep meters the box: the next record of its use is that of its deletion.
    await db.query(`update instances set metered_at = now() + interval '1 hour'`);
    const response = await follower.call(`/v1/boxes/${box.id}/executions`, {
      method: 'POST',
      headers: { accept: 'application/x-ndjson' },
      body: JSON.stringify({ code: 'import os, time\nprint(1)\nwhile not os.path.exists("go"): time.sleep(0.01)' }),
    });
    let reported: string | undefined;
    const reading = (async () => {
      for await (const event of readEvents(response)) if (event.type === 'done') reported = event.status;
    })().catch(() => {});

    // The follower cannot record the end, and the other gateway has read the box for the last time when it meters it, before it destroys it.
    await db.query(`
      create function hold() returns trigger language plpgsql as
        $$ begin perform pg_advisory_xact_lock(tg_argv[0]::int); return new; end $$;
      create trigger hold_end before update on executions for each row when (new.status = 'ok') execute function hold(1);
      create trigger hold_deletion before insert on usage for each row execute function hold(2);
      select pg_advisory_lock(1), pg_advisory_lock(2)`);
    const deleting = deleter.call(`/v1/boxes/${box.id}`, { method: 'DELETE' });
    const isHeld = `select from pg_locks where locktype = 'advisory' and objid = 2 and not granted`;
    await eventually(async () => (await db.query(isHeld)).rowCount === 1);
    // Nobody learns of the end of a command either.
    const touching = runInBox({ id: instance, address }, ['touch', 'go'], token).catch(() => undefined);
    await Promise.race([reading, sleep(readMs)]);

    await follower.kill('SIGKILL');
    const dead = `select pg_terminate_backend(pid) from pg_locks where locktype = 'advisory' and objid = 1 and not granted`;
    await db.query(dead);
    await db.query('select pg_advisory_unlock_all()');
    expect((await deleting).status).toBe(204);
    await touching;
    const path = response.headers.get('content-location') ?? '';
    const recorded = (await deleter.get<Execution>(path)).body.status;
    expect({ reported, recorded }).toEqual({ reported: undefined, recorded: 'lost' });
  });
});
