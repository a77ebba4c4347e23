import { copyFile, mkdtemp } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import pg from 'pg';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Box, Execution, Problem } from '#contract';
import { createDaemon } from '../../services/gateway/drivers/docker/daemon/daemon.ts';
import { takeBoxCensus } from '../faults/census.ts';
import { anyDriver, databaseUrl, drivers, eventually, type RunningGateway, startGateway } from './harness.ts';
import { startSecond } from './operator.ts';

describe.each(drivers)('two sites on one database on the %s driver', (driver) => {
  // The gateway decides from the database what to refuse, whatever the driver.
  const testOnce = anyDriver.includes(driver) ? test : () => {};
  let main: RunningGateway;
  let annex: RunningGateway;
  let database: pg.Client;
  let atMain: Box;
  let atAnnex: Box;

  /** The settings of a gateway with its own data folder on the database and with the key of the first one. */
  const elsewhere = async (env: Record<string, string> = {}): Promise<Record<string, string>> => {
    const dataDir = await mkdtemp(join(tmpdir(), 'codebox-test-'));
    await copyFile(join(main.dataDir, 'dev-key'), join(dataDir, 'dev-key'));
    return { CODEBOX_DATA_DIR: dataDir, DATABASE_URL: await databaseUrl(main.dataDir), ...env };
  };

  beforeAll(async () => {
    main = await startGateway(driver, { CODEBOX_SWEEP_SECONDS: '0.2' });
    database = new pg.Client(await databaseUrl(main.dataDir));
    await database.connect();
    atMain = await main.createBox();
    annex = await startGateway(
      driver,
      await elsewhere({
        CODEBOX_SITE: 'annex',
        CODEBOX_SWEEP_SECONDS: '0.2',
        CODEBOX_BLOBS: join(main.dataDir, 'blobs'),
      }),
    );
    atAnnex = await annex.createBox();
  });
  afterAll(async () => {
    await database?.end();
    // Each gateway deletes its own box, so that nothing is left.
    await main?.client.boxes.delete(atMain.id);
    await annex?.dispose();
    await main?.dispose();
  });

  const stateOf = async (gateway: RunningGateway, { id }: Box) =>
    (await gateway.get<Box>(`/v1/boxes/${id}`)).body.state;
  /** Waits for more than `count` sweeps of the site of a box: each of them meters the box. */
  const sweeps = async ({ id }: Box, count: number) => {
    const counted = new Set<string>();
    await eventually(async () => {
      const { rows } = await database.query('select metered_at::text as at from instances where box_id = $1', [id]);
      return counted.add(rows[0]?.at).size > count;
    });
  };

  test('boxes of both sites survive ten sweeps of both, and the start of another gateway', async () => {
    // The first sweep of a gateway compares instances with rows.
    await using _ = await startSecond(main, driver);
    await Promise.all([atMain, atAnnex].map((box) => sweeps(box, 10)));
    for (const gateway of [main, annex])
      for (const box of [atMain, atAnnex]) expect(await stateOf(gateway, box)).toBe('ready');
    expect((await main.run(atMain.id, '1 + 1')).text).toBe('2');
    expect((await annex.run(atAnnex.id, '1 + 1')).text).toBe('2');
  });

  testOnce('a box of the other site can be read, and its use is refused as unavailable, never as gone', async () => {
    const own = `/v1/boxes/${atMain.id}`;
    const uses = [
      annex.call(`${own}/executions`, { method: 'POST', body: '{"code":"1"}' }),
      annex.call(`${own}/commands`, { method: 'POST', body: '{"command":"true"}' }),
      annex.call(`${own}/files/`),
      annex.call(`${own}/contexts`),
      annex.call(`${own}/stats`),
      ...['pause', 'hibernate', 'checkpoint'].map((what) => annex.call(`${own}/${what}`, { method: 'POST' })),
    ];
    for (const response of await Promise.all(uses)) {
      const { code, detail } = (await response.json()) as Problem;
      expect([response.status, code]).toEqual([503, 'unavailable']);
      expect(detail).toBe(
        `The box lives at the site ${driver}, and this gateway serves the site annex: ask one of that site.`,
      );
      expect(Number(response.headers.get('retry-after'))).toBeGreaterThan(0);
    }
    expect(await stateOf(annex, atMain)).toBe('ready');
    expect((await main.run(atMain.id, '1 + 1')).text).toBe('2');
    expect((await main.call(`${own}/pause`, { method: 'POST' })).status).toBe(200);
    expect((await annex.call(`${own}/resume`, { method: 'POST' })).status).toBe(503);
    expect(await stateOf(annex, atMain)).toBe('paused');
    expect((await main.run(atMain.id, '1 + 1')).text).toBe('2');
  });

  testOnce('reuse for a user whose box is at the other site is refused as unavailable', async () => {
    const request = { user: 'ada', reuse: true };
    const { body: box } = await main.post<Box>('/v1/boxes', request);
    const { status, body: problem } = await annex.post<Problem>('/v1/boxes', request);
    expect([status, problem.code]).toEqual([503, 'unavailable']);
    expect((await main.post<Box>('/v1/boxes', request)).body.id).toBe(box.id);
    await main.client.boxes.delete(box.id);
  });

  test('a box hibernated at one site can be restored at the other, and stays there', async () => {
    const box = await main.createBox();
    await main.run(box.id, 'open("kept", "w").write("here")');
    expect((await main.call(`/v1/boxes/${box.id}/hibernate`, { method: 'POST' })).status).toBe(200);
    expect((await annex.run(box.id, 'open("kept").read()')).text).toBe("'here'");
    const { status } = await main.post<Execution>(`/v1/boxes/${box.id}/executions`, { code: '1' });
    expect(status).toBe(503);
    await annex.client.boxes.delete(box.id);
    expect(await stateOf(main, box)).toBe('deleted');
  });

  test('a box can be deleted at the other site, and its own site removes its instance', async () => {
    const census = () => takeBoxCensus(main, driver === 'docker' ? { docker: createDaemon() } : {});
    const before = await census();
    const box = await main.createBox();
    expect(await census()).not.toEqual(before);
    const running = main.post<Execution>(`/v1/boxes/${box.id}/executions`, { code: 'import time; time.sleep(600)' });
    await eventually(
      async () =>
        (await annex.get<{ items: Execution[] }>(`/v1/boxes/${box.id}/executions`)).body.items[0]?.status === 'running',
    );
    expect((await annex.call(`/v1/boxes/${box.id}`, { method: 'DELETE' })).status).toBe(204);
    expect(['deleting', 'deleted']).toContain(await stateOf(annex, box));
    await eventually(async () => (await stateOf(main, box)) === 'deleted');
    expect(await census()).toEqual(before);
    expect(['lost', 'killed', 'interrupted']).toContain((await running).body.status);
    expect(await stateOf(annex, atAnnex)).toBe('ready');
  });

  testOnce(
    'a gateway with another data folder at the same site fails to start with the setting to change',
    async () => {
      const start = startGateway(driver, await elsewhere({ CODEBOX_SITE: 'annex' }));
      await expect(start).rejects.toThrow(
        'Gateways of another host or data folder serve the site annex of this database: ' +
          'set CODEBOX_SITE to a name of its own for this one.\n',
      );
      expect(await stateOf(annex, atAnnex)).toBe('ready');
    },
  );
});
