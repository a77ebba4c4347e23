import { afterAll, beforeAll, expect, test } from 'vitest';
import type { Execution } from '#contract';
import { runtimes } from '../contract/offered.ts';
import { drivers, type RunningGateway, startGateway } from './harness.ts';

const isOffered = drivers.includes('docker') && runtimes.includes('runsc');

// The host counts what gVisor itself needs besides the box's tasks, and gVisor ends with all of the box when the host refuses it any.
test.runIf(isOffered)('with gVisor a fork bomb ends as pids_limit too, and the next run finds the files', async () => {
  const { id } = await gateway.createBox({ limits: { pids: 128 } });
  await gateway.run(id, "print(open('kept.txt', 'w').write('kept'))");
  const bomb: Execution = await gateway.run(id, ':(){ :|:& };:; wait', { language: 'bash', timeoutSeconds: 60 });
  expect(bomb).toMatchObject({ status: 'killed', cause: { code: 'pids_limit' } });
  expect(await gateway.run(id, "open('kept.txt').read()")).toMatchObject({ status: 'ok', text: "'kept'" });
});

let gateway: RunningGateway;
beforeAll(async () => {
  if (isOffered) gateway = await startGateway('docker', { CODEBOX_RUNTIME: 'runsc' });
});
afterAll(() => gateway?.dispose());
