import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { startEmbeddedPostgres } from '../../services/postgres/embedded.ts';
import { createPool } from '../../services/postgres/pool.ts';
import { findPostmaster } from '../../services/postgres/postmaster.ts';

let folder: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'codebox-embedded-'));
});
afterAll(() => rm(folder, { recursive: true, force: true }));

/** Somebody who uses the database of the folder, and leaves it. */
const joined = async () => {
  const postgres = await startEmbeddedPostgres(folder);
  const pool = createPool(postgres.url, { onError: () => {} });
  await pool.query('select 1');
  return async () => {
    await pool.end();
    await postgres.stop();
  };
};

test('it ends with the last of those who use it, also when all leave at once', async () => {
  const isThere = async () => (await findPostmaster(join(folder, 'data'))) !== undefined;
  for (let round = 0; round < 3; round++) {
    const leaveFirst = await joined();
    const others = await Promise.all(Array.from({ length: 8 }, joined));
    await leaveFirst();
    expect(await isThere()).toBe(true);
    await Promise.all(others.map((leave) => leave()));
    expect(await isThere()).toBe(false);
  }
});
