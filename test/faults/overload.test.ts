import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { anyDriver, type RunningGateway, startGateway } from '../api/harness.ts';

// The gateway bounds and times starts whatever the driver.
const driver = anyDriver[0] ?? 'local';
const [boxes, busy] = [20, 50];

let gateway: RunningGateway;
let load: ChildProcess[] = [];
beforeAll(async () => {
  // All boxes together take longer to start than this on any machine with few CPUs.
  gateway = await startGateway(driver, { CODEBOX_START_SECONDS: '10', CODEBOX_MAX_BOXES: String(boxes) });
  const loop = ['300', 'nice', '-n', '19', 'sh', '-c', 'while :; do :; done'];
  load = Array.from({ length: busy }, () => spawn('timeout', loop, { stdio: 'ignore' }));
});
afterAll(async () => {
  const ended = load.map((child) => once(child, 'exit'));
  for (const child of load) child.kill();
  await Promise.all(ended);
  await gateway?.dispose();
});

test(`${boxes} concurrent creates beside ${busy} busy processes all succeed at their first attempt`, async () => {
  const made = await Promise.all(Array.from({ length: boxes }, () => gateway.createBox()));
  expect(made.map(({ state }) => state)).toEqual(Array(boxes).fill('ready'));
  expect((await gateway.run(made.at(-1)?.id ?? '', '6 * 7')).text).toBe('42');
  const metrics = await (await fetch(`${gateway.url}/metrics`)).text();
  expect(metrics).not.toMatch(/^codebox_driver_call\w*_count\{[^}]*call="create"[^}]*outcome="(?!ok)/m);
  expect(metrics).toMatch(/call="create"[^}]*outcome="ok"/);
}, 240_000);
