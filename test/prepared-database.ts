import { execFile } from 'node:child_process';
import { appendFile, mkdir, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { openStore } from '../services/gateway/store/store.ts';
import { startEmbeddedPostgres } from '../services/postgres/embedded.ts';

/** Names the folder to the processes that run test files. */
const variable = 'CODEBOX_TEST_DATABASE';

/** Before all files: makes a database that is initialised and migrated, for gateways to begin with, and is not running. */
export const setup = async (): Promise<void> => {
  const folder = await mkdtemp(join(tmpdir(), 'codebox-database-'));
  process.env[variable] = folder;
  const postgres = await startEmbeddedPostgres(folder);
  const store = await openStore(postgres.url, () => {});
  await store.close();
  await postgres.stop();
  // Only a crash of the whole machine could tell the difference, and a disk that tests keep busy makes each commit wait.
  await appendFile(join(folder, 'data/postgresql.auto.conf'), 'fsync = off\n');
};

/** After all files. */
export const teardown = async (): Promise<void> => {
  const folder = process.env[variable];
  if (folder) await rm(folder, { recursive: true, force: true });
};

/** Puts a copy of that database where a gateway looks for its own. Without one, as in a benchmark, the gateway makes its own. */
export const placeDatabase = async (dataDir: string): Promise<void> => {
  const folder = process.env[variable];
  if (!folder) return;
  await mkdir(dataDir, { recursive: true });
  await promisify(execFile)('cp', ['-a', folder, join(dataDir, 'postgres')]);
};
