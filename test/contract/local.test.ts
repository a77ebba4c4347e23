import { mkdtempSync } from 'node:fs';
import { readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll } from 'vitest';
import { createLocalDriver } from '../../services/gateway/drivers/local/driver.ts';
import { runDriverContract } from './driver.ts';
import { takeHostCensus } from './host-census.ts';
import { hasDriver } from './offered.ts';

const dataDir = mkdtempSync(join(tmpdir(), 'cbx-'));
const deployment = 'contract-local';

afterAll(() => rm(dataDir, { recursive: true, force: true }));

if (hasDriver('local')) {
  runDriverContract({
    name: 'local',
    image: '',
    create: () => createLocalDriver({ dataDir, deployment }),
    census: () => takeHostCensus(dataDir, deployment),
    hostPid: async (id) => Number.parseInt(await readFile(`${dataDir}/local/instances/${id}/stat`, 'utf8'), 10),
    kernel: 'host',
  });
}
