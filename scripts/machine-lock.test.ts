import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { runHostCommand } from '../services/gateway/drivers/host/host-command.ts';
import { lockMachine } from './machine-lock.ts';

let folder: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'codebox-lock-'));
});
afterAll(() => rm(folder, { recursive: true }));

const options = { purpose: 'the cluster', waitMs: 10_000, signal: AbortSignal.timeout(60_000) };

test('a second run waits until the first is done, and says for which process', async () => {
  const path = join(folder, 'waiting');
  const first = await lockMachine(path, { ...options, log: () => {} });
  const { promise: waits, resolve } = Promise.withResolvers<string>();
  const second = lockMachine(path, { ...options, log: resolve });
  expect(await waits).toBe(`Waiting for the cluster, which process ${process.pid} uses.`);
  await first[Symbol.asyncDispose]();
  await (await second)[Symbol.asyncDispose]();
});

test('a run that waits for too long is refused with the process that is in its way', async () => {
  const path = join(folder, 'refused');
  await using _ = await lockMachine(path, { ...options, log: () => {} });
  const refused = lockMachine(path, { ...options, waitMs: 100, log: () => {} });
  await expect(refused).rejects.toThrow(`process ${process.pid} still uses the cluster after 0.1 s`);
});

test('the end of a killed run releases its lock', async () => {
  const path = join(folder, 'killed');
  const program = `const { lockMachine } = await import(${JSON.stringify(join(import.meta.dirname, 'machine-lock.ts'))});
    await lockMachine(${JSON.stringify(path)}, { purpose: '', waitMs: 1000, log() {}, signal: AbortSignal.timeout(10_000) });
    process.kill(process.pid, 'SIGKILL');`;
  const killed = runHostCommand([process.execPath, '--input-type=module', '--eval', program]);
  await expect(killed).rejects.toThrow();
  await using _ = await lockMachine(path, { ...options, log: () => {} });
});
