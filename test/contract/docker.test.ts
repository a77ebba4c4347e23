import { mkdtempSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll } from 'vitest';
import { createDaemon } from '../../services/gateway/drivers/docker/daemon.ts';
import { createDockerDriver } from '../../services/gateway/drivers/docker/driver.ts';
import { takeDaemonCensus } from './daemon-census.ts';
import { runDriverContract } from './driver.ts';
import { takeHostCensus } from './host-census.ts';
import { hasDriver, runtimes } from './offered.ts';

const dataDir = mkdtempSync(join(tmpdir(), 'cbx-'));
const daemon = createDaemon();
const deadline = () => AbortSignal.timeout(30_000);

afterAll(() => rm(dataDir, { recursive: true, force: true }));

for (const runtime of hasDriver('docker') ? runtimes : []) {
  const deployment = `contract-${runtime}`;
  runDriverContract({
    name: `docker with ${runtime}`,
    image: process.env.CODEBOX_BOX_IMAGE ?? 'codebox-box:latest',
    create: () => createDockerDriver({ dataDir, deployment, runtime }),
    census: () => takeHostCensus(dataDir, deployment, () => takeDaemonCensus(daemon, deployment)),
    async hostPid(id) {
      const container = daemon.docker.getContainer(`codebox-${deployment}-${id}`);
      return (await daemon.call(deadline(), () => container.inspect())).State.Pid;
    },
    kernel: runtime.startsWith('runsc') ? 'gvisor' : 'host',
  });
}
