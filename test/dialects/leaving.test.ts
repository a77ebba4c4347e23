import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { anyDriver, collect, eventually, type RunningGateway, startGateway } from '../api/harness.ts';

describe.each(anyDriver)('a client that leaves, on the %s driver', (driver) => {
  let gateway: RunningGateway;
  beforeAll(async () => {
    gateway = await startGateway(driver, { CODEBOX_DIALECTS: 'librechat,piston' });
  });
  afterAll(() => gateway?.dispose());

  const living = () => collect(gateway.client.boxes.list());
  const post = (path: string, body: unknown, signal: AbortSignal) =>
    gateway
      .call(path, {
        method: 'POST',
        body: JSON.stringify(body),
        headers: { 'content-type': 'application/json' },
        signal,
      })
      .catch(() => 'left');

  const commandsOf = async (box: string) =>
    (await gateway.get<{ items: { id: string; status: string }[] }>(`/v1/boxes/${box}/commands`)).body.items;

  test('ends its program, with the dialect piston', async () => {
    // They are read by a program in another box.
    await gateway.call('/api/v2/runtimes');
    const leave = new AbortController();
    const program = { language: 'python', version: '*', files: [{ content: 'import time; time.sleep(600)' }] };
    const left = post('/api/v2/execute', { ...program, run_timeout: 600_000 }, leave.signal);
    const box = await eventually(async () => (await living()).find(({ state }) => state === 'ready'));
    await eventually(async () => (await commandsOf(box.id)).length > 0);
    leave.abort();
    expect(await left).toBe('left');
    await eventually(async () => (await living()).length === 0);
  });

  test('ends its process, also before it has started, with the dialect librechat', async () => {
    const leave = new AbortController();
    const left = post('/librechat/exec', { lang: 'bash', code: 'sleep 100' }, leave.signal);
    const made = await eventually(async () => (await living())[0]);
    leave.abort();
    expect(await left).toBe('left');
    await eventually(async () => (await gateway.client.boxes.read(made.id)).state === 'ready');
    // It takes a moment to start.
    await sleep(1000);
    await eventually(async () => (await commandsOf(made.id)).every(({ status }) => status !== 'running'));
    await gateway.client.boxes.delete(made.id);
  });
});
