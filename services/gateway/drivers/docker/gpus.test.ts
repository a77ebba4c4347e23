import { mkdtempSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { CodeBoxError } from '#contract';
import { type Gpus, wholeGpu } from '../driver.ts';
import { createGpuDevices, type DevicesByKind, throwLackOfGpu } from './gpus.ts';

const share = 'nvidia.com/mig-1g.5gb';
const request = { Driver: 'nvidia', Capabilities: [['gpu', 'compute', 'utility']] };
const open = (devices: DevicesByKind, runtimes = ['runc', 'nvidia'], ofAnother = devices) => {
  const folder = join(mkdtempSync(join(tmpdir(), 'cbx-gpus-')), 'gpus');
  onTestFinished(() => rm(join(folder, '..'), { recursive: true }));
  const create = (own: DevicesByKind) => createGpuDevices({ folder, devices: own, runtimes });
  return { gpus: create(devices), ofAnotherGateway: create(ofAnother) };
};
const claim = (gpus: ReturnType<typeof createGpuDevices>, id: string, asked: Gpus) =>
  gpus.claim(id, asked, AbortSignal.timeout(10_000));

test('a device belongs to one instance until that releases it, whichever gateway asks', async () => {
  const { gpus, ofAnotherGateway } = open({ [wholeGpu]: ['GPU-1a', '0:1'], [share]: ['MIG-3c'] });
  const one = { kind: wholeGpu, count: 1 };
  expect(await claim(gpus, 'i-1', one)).toEqual({ ...request, DeviceIDs: ['GPU-1a'] });
  const busy = { code: 'unavailable', why: { code: 'unschedulable' }, retryAfterSeconds: expect.any(Number) };
  await expect(claim(ofAnotherGateway, 'i-2', { ...one, count: 2 })).rejects.toMatchObject(busy);
  expect(await claim(ofAnotherGateway, 'i-3', one)).toEqual({ ...request, DeviceIDs: ['0:1'] });
  expect(await claim(ofAnotherGateway, 'i-4', { kind: share, count: 1 })).toEqual({
    ...request,
    DeviceIDs: ['MIG-3c'],
  });
  // Both gateways end the same instance.
  await Promise.all([gpus.release('i-1'), ofAnotherGateway.release('i-1'), gpus.release('none')]);
  expect((await gpus.list()).toSorted()).toEqual(['i-3', 'i-4']);
  expect(await claim(gpus, 'i-5', one)).toEqual({ ...request, DeviceIDs: ['GPU-1a'] });
});

test('of two gateways that claim all devices at once one gets them', async () => {
  const { gpus, ofAnotherGateway } = open({ [wholeGpu]: ['0', '1', '2', '3'] }, ['nvidia'], {
    [wholeGpu]: ['3', '2', '1', '0'],
  });
  const all = { kind: wholeGpu, count: 4 };
  for (let round = 0; round < 5; round++) {
    const both = await Promise.allSettled([claim(gpus, 'i-1', all), claim(ofAnotherGateway, 'i-2', all)]);
    expect(both.map(({ status }) => status).sort()).toEqual(['fulfilled', 'rejected']);
    expect(await gpus.list()).toHaveLength(1);
    await Promise.all([gpus.release('i-1'), gpus.release('i-2')]);
  }
});

test('without a list of devices, instances share all GPUs of the host', async () => {
  const { gpus } = open({});
  for (const id of ['i-1', 'i-2'])
    expect(await claim(gpus, id, { kind: wholeGpu, count: 1 })).toEqual({ ...request, Count: 1 });
  expect(await gpus.list()).toEqual([]);
});

test('what no instance can have is known before one is created', () => {
  const [listed, shared, none] = [open({ [wholeGpu]: ['0'] }), open({}), open({ [wholeGpu]: ['0'] }, ['runc'])];
  const whole = (count: number) => ({ kind: wholeGpu, count });
  expect([listed.gpus.obstacle(whole(1)), shared.gpus.obstacle(whole(8))]).toEqual([undefined, undefined]);
  expect(listed.gpus.obstacle(whole(2))).toBe(`CODEBOX_GPUS names fewer than 2 devices of the kind ${wholeGpu}`);
  expect(shared.gpus.obstacle({ kind: share, count: 1 })).toBe(`CODEBOX_GPUS names no devices of the kind ${share}`);
  expect(none.gpus.obstacle(whole(1))).toBe('the Docker daemon has no runtime nvidia');
});

test.each([
  ['(HTTP code 500) server error - could not select device driver "nvidia" with capabilities: [[gpu]]', 'gpu'],
  ['(HTTP code 500) server error - nvidia-container-cli: initialization error: driver not loaded', 'gpu'],
  ['(HTTP code 500) server error - no space left on device', undefined],
])('a refusal to start counts as one of GPUs only if it is: %s', (text, code) => {
  const refusal = new CodeBoxError('unavailable', 'The Docker daemon refused a request.', { cause: new Error(text) });
  const rethrown = (() => {
    try {
      return throwLackOfGpu(refusal);
    } catch (error) {
      return error;
    }
  })();
  if (code === undefined) expect(rethrown).toBe(refusal);
  else expect(rethrown).toMatchObject({ reason: 'gpu_unavailable', why: { code, detail: `Error: ${text}` } });
});
