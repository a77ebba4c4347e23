import { lstat, mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import pg from 'pg';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { openStore } from '../../services/gateway/store/store.ts';
import { addressOf, socketName } from '../../services/postgres/address.ts';
import { onceThere } from '../../services/postgres/away.ts';
import { startEmbeddedPostgres } from '../../services/postgres/embedded.ts';
import { createPool } from '../../services/postgres/pool.ts';
import { findPostmaster } from '../../services/postgres/postmaster.ts';

let folder: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'codebox-embedded-'));
});
afterAll(() => rm(folder, { recursive: true, force: true }));

/** Joins the database of the folder as a user; resolves with a function that leaves it. */
const joined = async () => {
  const postgres = await startEmbeddedPostgres(folder);
  const pool = createPool(postgres.url, { onError: () => {} });
  await pool.query('select 1');
  return async () => {
    await pool.end();
    await postgres.stop();
  };
};

test('an embedded PostgreSQL stops with its last user, also when all leave at once', async () => {
  const isThere = async () => (await findPostmaster({ folder, data: join(folder, 'data') })) !== undefined;
  for (let round = 0; round < 3; round++) {
    const leaveFirst = await joined();
    const others = await Promise.all(Array.from({ length: 8 }, joined));
    await leaveFirst();
    expect(await isThere()).toBe(true);
    await Promise.all(others.map((leave) => leave()));
    expect(await isThere()).toBe(false);
  }
});

test('an embedded PostgreSQL starts despite the lock files of a killed server whose process id has been reused', async () => {
  const lockFiles = [join(folder, 'data/postmaster.pid'), join(folder, `${socketName}.lock`)];
  const leave = await joined();
  const left = await Promise.all(lockFiles.map((note) => readFile(note, 'utf8')));
  await leave();
  for (const [index, note] of lockFiles.entries())
    await writeFile(note, left[index]?.replace(/^\d+/, String(process.pid)) ?? '', { mode: 0o600 });
  await (await joined())();
});

test('an embedded PostgreSQL works in a folder whose path is too long for a Unix socket, and does not listen on TCP', async () => {
  const long = join(folder, 'long'.repeat(30));
  await mkdir(long);
  const postgres = await startEmbeddedPostgres(long);
  const { url, socketFolder } = await addressOf(long);
  const client = new pg.Client({ connectionString: url });
  try {
    expect(postgres.url).toBe(url);
    await client.connect();
    const { rows } = await client.query('show listen_addresses');
    expect(rows).toEqual([{ listen_addresses: '' }]);
    expect((await lstat(socketFolder)).isSymbolicLink()).toBe(true);
  } finally {
    await client.end();
    await postgres.stop();
    await rm(socketFolder);
  }
});

test('a process that connects during a restart of the database waits, while an authentication failure is reported at once', async () => {
  const postgres = await startEmbeddedPostgres(folder);
  try {
    await (await openStore(postgres.url, () => {})).close();
    const kill = async () =>
      process.kill((await findPostmaster({ folder, data: join(folder, 'data') })) ?? Number.NaN, 'SIGKILL');
    await kill();
    const store = await openStore(postgres.url, () => {});
    await kill();
    expect(await onceThere(store.keys.hasTenants)).toBe(false);
    await store.close();
    const stranger = new URL(postgres.url);
    stranger.password = 'another';
    await expect(openStore(stranger.href, () => {})).rejects.toMatchObject({ code: '28P01' });
  } finally {
    await postgres.stop();
  }
});
