import { execFile } from 'node:child_process';
import { appendFile, mkdir, mkdtemp, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import pg from 'pg';
import { openStore } from '../services/gateway/store/store.ts';
import { startEmbeddedPostgres } from '../services/postgres/embedded.ts';
import { quickFolder } from './quick-folder.ts';

/** Passes the folder to the processes that run test files. */
const variable = 'CODEBOX_TEST_DATABASE';

/** The folder that this project has made, and removes. */
let made: string | undefined;

/** Before all files: creates a database that is initialized, migrated and stopped, which gateways copy. */
export const setup = async (): Promise<void> => {
  // Made for another project of this run, or for a run that this one is a test of.
  if (process.env[variable]) return;
  const folder = await mkdtemp(join(quickFolder, 'codebox-database-'));
  made = folder;
  process.env[variable] = folder;
  const postgres = await startEmbeddedPostgres(folder);
  const store = await openStore(postgres.url, () => {});
  await store.close();
  await lighten(postgres.url);
  await postgres.stop();
  // `fsync` matters only in a crash of the whole machine, and each commit would wait for a disk that tests keep busy. The other settings
  // avoid background processes, which most servers do not live long enough to use.
  const settings = ['fsync = off', 'io_method = sync', 'max_logical_replication_workers = 0'];
  await appendFile(join(folder, 'data/postgresql.auto.conf'), `${settings.join('\n')}\n`);
};

/**
 * Drops the templates, which are half of the files of a data folder, as no gateway creates a database. Copies are made and removed all the
 * time, and ext4 looks at each file that it removed in the last minutes before it creates another: without them a copy takes a fifth of the
 * CPU time. Stores the password without iterations, which each of thousands of connections would pay for.
 */
const lighten = async (url: string): Promise<void> => {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  await client.query('update pg_database set datistemplate = false');
  for (const name of ['template0', 'template1']) await client.query(`drop database ${name}`);
  await client.query('set scram_iterations = 1');
  await client.query(`alter role current_user password ${client.escapeLiteral(client.password ?? '')}`);
  await client.end();
};

/** After all files: removes the database. */
export const teardown = async (): Promise<void> => {
  if (made) await rm(made, { recursive: true, force: true });
};

/** Copies the prepared database into a data folder. Without one, as in a benchmark, the gateway creates its own. */
export const placeDatabase = async (dataDir: string): Promise<void> => {
  const folder = process.env[variable];
  if (!folder) return;
  await mkdir(dataDir, { recursive: true });
  await promisify(execFile)('cp', ['-a', folder, join(dataDir, 'postgres')]);
};
