import { mkdtempSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll } from 'vitest';
import { createDaemon } from '../../services/gateway/drivers/docker/daemon/daemon.ts';
import { createDockerDriver } from '../../services/gateway/drivers/docker/driver.ts';
import { hasDriver, runtimes } from './available.ts';
import { takeDaemonCensus } from './daemon-census.ts';
import { runDriverContract } from './driver.ts';
import { type HostContract, runHostContract } from './host.ts';
import { takeHostCensus } from './host-census.ts';

const [dataDir, foreignDir] = [mkdtempSync(join(tmpdir(), 'cbx-')), mkdtempSync(join(tmpdir(), 'cbx-'))];
const daemon = createDaemon();
const deadline = () => AbortSignal.timeout(30_000);

afterAll(async () => {
  for (const folder of [dataDir, foreignDir]) await rm(folder, { recursive: true, force: true });
});

/** gVisor's boxes always start a server of their own. */
const sources = [
  ...runtimes.map((runtime) => ({ runtime, sharedParent: false })),
  ...runtimes.filter((runtime) => runtime === 'runc').map((runtime) => ({ runtime, sharedParent: true })),
];

for (const { runtime, sharedParent } of hasDriver('docker') ? sources : []) {
  const deployment = `contract-${runtime}${sharedParent ? '-forked' : ''}`;
  const isGvisor = runtime.startsWith('runsc');
  const container = (id: string) => daemon.docker.getContainer(`codebox-${deployment}-${id}`);
  const contract: HostContract = {
    name: `docker with ${runtime}${sharedParent ? ', forked' : ''}`,
    image: process.env.CODEBOX_BOX_IMAGE ?? 'codebox-box:latest',
    create: () => createDockerDriver({ dataDir, deployment, runtime, sharedParent }),
    createForeign: () => createDockerDriver({ dataDir: foreignDir, deployment: `${deployment}-foreign`, runtime }),
    leftovers: () => takeHostCensus(dataDir, deployment, () => takeDaemonCensus(daemon, deployment)),
    hostPid: async (id) => (await daemon.call(deadline(), () => container(id).inspect())).State.Pid,
    kill: async (id) => void (await daemon.call(deadline(), () => container(id).kill())),
    kernel: isGvisor ? 'gvisor' : 'host',
    hasSeccompFilter: true,
    outOfMemory: isGvisor ? 'box' : 'program',
    reachesInternet: true,
    measures: true,
  };
  runDriverContract(contract);
  runHostContract(contract);
}
