import { mkdtempSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { createDockerDriver } from '../../services/gateway/drivers/docker/driver.ts';
import { type Driver, wholeGpu } from '../../services/gateway/drivers/driver.ts';
import { hasDriver } from './available.ts';
import { openDaemonWithGpus } from './docker-proxy.ts';
import { limits } from './fixture.ts';

const image = process.env.CODEBOX_BOX_IMAGE ?? 'codebox-box:latest';
const deadline = () => AbortSignal.timeout(60_000);

test.runIf(hasDriver('docker'))(
  'a daemon is asked for the GPUs of a box; if it has none after all, a retry does not help, and no device is kept',
  async () => {
    const dataDir = mkdtempSync(join(tmpdir(), 'cbx-gpus-'));
    onTestFinished(() => rm(dataDir, { recursive: true, force: true }));
    const daemon = await openDaemonWithGpus(join(dataDir, 'docker.sock'));
    onTestFinished(daemon.close);
    const options = { dataDir, host: daemon.host };
    const sharing = await createDockerDriver({ ...options, deployment: 'gpus-shared' });
    const giving = await createDockerDriver({ ...options, deployment: 'gpus', gpus: { [wholeGpu]: ['GPU-1a'] } });
    const refusalOf = async (driver: Driver, id: string) => {
      const spec = { id, token: 'token', image, limits, network: 'none', gpus: { kind: wholeGpu, count: 1 } } as const;
      return await driver.create(spec, deadline()).catch((error: unknown) => error);
    };
    const lasting = { reason: 'gpu_unavailable', why: { code: 'gpu' }, retryAfterSeconds: undefined };
    for (const driver of [sharing, giving, giving]) {
      expect(driver.gpuObstacle?.({ kind: wholeGpu, count: 1 })).toBeUndefined();
      const refusal = await refusalOf(driver, `g-${daemon.requested.length}`);
      expect(refusal).toMatchObject(lasting);
      expect(refusal).toHaveProperty('why.detail', expect.stringContaining('could not select device driver'));
      expect(await driver.list(deadline())).toEqual([]);
    }
    const asked = { Driver: 'nvidia', Capabilities: [['gpu', 'compute', 'utility']] };
    const given = { ...asked, DeviceIDs: ['GPU-1a'] };
    expect(daemon.requested).toEqual([[{ ...asked, Count: 1 }], [given], [given]]);
  },
);
