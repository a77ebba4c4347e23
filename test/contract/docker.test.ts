import { mkdtempSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll } from 'vitest';
import { createDaemon } from '../../services/gateway/drivers/docker/daemon.ts';
import { createDockerDriver } from '../../services/gateway/drivers/docker/driver.ts';
import { runDriverContract } from './driver.ts';
import { takeHostCensus } from './host-census.ts';
import { hasDriver, runtimes } from './offered.ts';

const dataDir = mkdtempSync(join(tmpdir(), 'cbx-'));
const daemon = createDaemon();
const deadline = () => AbortSignal.timeout(30_000);

afterAll(() => rm(dataDir, { recursive: true, force: true }));

const daemonCensus = async (deployment: string): Promise<string[]> => {
  const filters = JSON.stringify({ label: [`codebox.deployment=${deployment}`] });
  const containers = await daemon.call(deadline(), (docker) => docker.listContainers({ all: true, filters }));
  const { Volumes: volumes } = await daemon.call(deadline(), (docker) => docker.listVolumes({ filters }));
  return [
    ...containers.map(({ Names }) => `container ${Names[0]}`),
    ...(volumes ?? []).map(({ Name }) => `volume ${Name}`),
  ];
};

for (const runtime of hasDriver('docker') ? runtimes : []) {
  const deployment = `contract-${runtime}`;
  runDriverContract({
    name: `docker with ${runtime}`,
    image: process.env.CODEBOX_BOX_IMAGE ?? 'codebox-box:latest',
    create: () => createDockerDriver({ dataDir, deployment, runtime }),
    census: () => takeHostCensus(dataDir, deployment, () => daemonCensus(deployment)),
    async hostPid(id) {
      const container = daemon.docker.getContainer(`codebox-${deployment}-${id}`);
      return (await daemon.call(deadline(), () => container.inspect())).State.Pid;
    },
    kernel: runtime.startsWith('runsc') ? 'gvisor' : 'host',
  });
}
