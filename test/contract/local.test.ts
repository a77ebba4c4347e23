import { mkdtempSync } from 'node:fs';
import { readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll } from 'vitest';
import { createLocalDriver } from '../../services/gateway/drivers/local/driver.ts';
import { hasDriver } from './available.ts';
import { runDriverContract } from './driver.ts';
import { type HostContract, runHostContract } from './host.ts';
import { takeHostCensus } from './host-census.ts';

const [dataDir, foreignDir] = [mkdtempSync(join(tmpdir(), 'cbx-')), mkdtempSync(join(tmpdir(), 'cbx-'))];
const deployment = 'contract-local';
const pidIn = async (id: string, file: 'stat' | 'init') =>
  Number.parseInt(await readFile(`${dataDir}/local/instances/${id}/${file}`, 'utf8'), 10);

afterAll(async () => {
  for (const folder of [dataDir, foreignDir]) await rm(folder, { recursive: true, force: true });
});

if (hasDriver('local')) {
  const contract: HostContract = {
    name: 'local',
    image: '',
    create: () => createLocalDriver({ dataDir, deployment }),
    createForeign: () => createLocalDriver({ dataDir: foreignDir, deployment: `${deployment}-foreign` }),
    leftovers: () => takeHostCensus(dataDir, deployment),
    hostPid: (id) => pidIn(id, 'stat'),
    kill: async (id) => void process.kill(await pidIn(id, 'init'), 'SIGKILL'),
    kernel: 'host',
    hasSeccompFilter: true,
    outOfMemory: 'program',
    reachesInternet: true,
    measures: true,
  };
  runDriverContract(contract);
  runHostContract(contract);
}
