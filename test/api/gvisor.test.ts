import { afterAll, beforeAll, expect, test } from 'vitest';
import type { Box, Execution } from '#contract';
import { runtimes } from '../contract/available.ts';
import { drivers, type RunningGateway, startGateway } from './harness.ts';

const isOffered = drivers.includes('docker') && runtimes.includes('runsc');

// The host also counts the tasks of gVisor itself, and the whole box ends when the host refuses gVisor a task.
test.runIf(isOffered)('with gVisor a fork bomb ends as pids_limit, and the next run finds the files', async () => {
  const { id } = await gateway.createBox({ limits: { pids: 128 } });
  await gateway.run(id, "print(open('kept.txt', 'w').write('kept'))");
  const bomb: Execution = await gateway.run(id, ':(){ :|:& };:; exec sleep 60', {
    language: 'bash',
    timeoutSeconds: 60,
  });
  expect(bomb).toMatchObject({ status: 'killed', cause: { code: 'pids_limit' } });
  expect(await gateway.run(id, "open('kept.txt').read()")).toMatchObject({ status: 'ok', text: "'kept'" });
});

test.runIf(isOffered)('with gVisor a box over its memory is lost with that cause, and so is its run', async () => {
  const { id } = await gateway.createBox({ limits: { memoryMb: 512 } });
  const code = 'b = bytearray(1 << 30)\nfor i in range(0, len(b), 4096): b[i] = 1';
  const killed: Execution = await gateway.run(id, code);
  expect(killed).toMatchObject({ status: 'lost', cause: { code: 'box_memory_limit' } });
  expect((await gateway.get<Box>(`/v1/boxes/${id}`)).body).toMatchObject({
    state: 'lost',
    cause: { code: 'memory_limit' },
  });
});

let gateway: RunningGateway;
beforeAll(async () => {
  if (isOffered) gateway = await startGateway('docker', { CODEBOX_RUNTIME: 'runsc', CODEBOX_SHARED_PARENT: '0' });
});
afterAll(() => gateway?.dispose());
