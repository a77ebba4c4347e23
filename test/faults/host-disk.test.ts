import { mkdir, mkdtemp, open, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import pg from 'pg';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Box, Problem } from '#contract';
import { createDaemon } from '../../services/gateway/drivers/docker/daemon/daemon.ts';
import { runHostCommand } from '../../services/gateway/drivers/host/host-command.ts';
import { databaseUrl, drivers, eventually, type RunningGateway, startGateway } from '../api/harness.ts';
import { takeBoxCensus } from './census.ts';

describe.each(drivers)('a full disk of the host, on the %s driver', (driver) => {
  let gateway: RunningGateway;
  let box: Box;
  let disk: string;
  const docker = driver === 'docker' ? createDaemon() : undefined;
  const census = () => takeBoxCensus(gateway, docker ? { docker } : {});

  beforeAll(async () => {
    disk = await mkdtemp(join(tmpdir(), 'cbx-full-'));
    await runHostCommand(['mount', '-t', 'tmpfs', '-o', 'size=400m', 'codebox-test', disk]);
    const dataDir = join(disk, 'data');
    await mkdir(dataDir);
    gateway = await startGateway(driver, {
      CODEBOX_DATA_DIR: dataDir,
      CODEBOX_SWEEP_SECONDS: '1',
    });
    box = await gateway.createBox({ limits: { memoryMb: 512, diskMb: 64 } });
    await gateway.run(box.id, 'x = 41');
    await reserveLog(dataDir);
  });
  afterAll(async () => {
    await gateway?.dispose();
    await runHostCommand(['umount', '--lazy', disk]);
    await rm(disk, { recursive: true, force: true });
  });

  /** Preallocates write-ahead log, because PostgreSQL would stop where its log needs another file. */
  const reserveLog = async (dataDir: string): Promise<void> => {
    const client = new pg.Client({ connectionString: await databaseUrl(dataDir), query_timeout: 30_000 });
    await client.connect();
    try {
      for (let n = 0; n < 3; n++) for (const step of ['select pg_switch_wal()', 'checkpoint']) await client.query(step);
    } finally {
      await client.end();
    }
  };

  /** Fills the file system to its last block. */
  const fill = async (path: string): Promise<void> => {
    const file = await open(path, 'w');
    try {
      for (const size of [1 << 20, 4096]) {
        for (;;) await file.write(Buffer.alloc(size)).then(({ bytesWritten }) => bytesWritten || Promise.reject());
      }
    } finally {
      await file.close();
    }
  };

  test('creates get 503 with the reason, and with free space again new boxes start and existing ones keep their variables', async () => {
    const before = await census();
    const path = join(disk, 'filling');
    await fill(path).catch(() => {});
    const refused = await gateway.post<Problem>('/v1/boxes', {});
    expect(refused).toMatchObject({
      status: 503,
      body: { code: 'unavailable', detail: 'The disk of this host is full.' },
    });
    expect(Number(refused.headers.get('retry-after'))).toBeGreaterThan(0);
    expect((await fetch(`${gateway.url}/readyz`)).status).toBe(503);
    expect(await census()).toEqual(before);
    await rm(path);
    await eventually(async () => (await fetch(`${gateway.url}/readyz`)).ok, 30_000);
    expect((await gateway.run(box.id, 'x + 1')).text).toBe('42');
    const next = await gateway.createBox({ limits: { memoryMb: 512, diskMb: 64 } });
    expect((await gateway.run(next.id, '1 + 1')).text).toBe('2');
    await gateway.client.boxes.delete(next.id);
    expect(await census()).toEqual(before);
  });
});
