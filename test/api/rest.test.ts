import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { drivers, eventually, type RunningGateway, refusal, startGateway } from './harness.ts';

describe.each(drivers)('boxes at rest on the %s driver', (driver) => {
  let gateway: RunningGateway;
  beforeAll(async () => {
    gateway = await startGateway(driver, {
      CODEBOX_SWEEP_SECONDS: '0.5',
      CODEBOX_CHECKPOINT_SECONDS: '1',
      CODEBOX_MAX_BOXES: '6',
    });
  });
  afterAll(() => gateway?.dispose());

  const text = async (box: string, code: string) => (await gateway.run(box, code)).text;

  test('a paused box keeps its variables, uses no CPU, and is back on use', async () => {
    const { boxes, executions } = gateway.client;
    const { id } = await gateway.createBox();
    await gateway.run(
      id,
      'x = 41\nimport threading\ndef spin():\n  while True: pass\nthreading.Thread(target=spin, daemon=True).start()',
    );
    const running = await executions.start(id, { code: 'import time; time.sleep(2)' });
    const refused = await refusal(boxes.pause(id));
    expect([refused.code, refused.message]).toEqual(['conflict', expect.stringContaining(running.id)]);
    await eventually(async () => (await executions.read(id, running.id)).status === 'ok');
    expect(await boxes.pause(id)).toMatchObject({ id, state: 'paused' });
    expect(await boxes.pause(id)).toMatchObject({ state: 'paused' });
    const before = await boxes.stats(id);
    await new Promise((done) => setTimeout(done, 1000));
    expect((await boxes.stats(id)).cpu.usedMs - before.cpu.usedMs).toBeLessThan(20);
    expect((await boxes.read(id)).state).toBe('paused');
    expect(await text(id, 'x + 1')).toBe('42');
    expect(await boxes.read(id)).toMatchObject({ state: 'ready', continuity: 'reused' });
    expect(await boxes.pause(id)).toMatchObject({ state: 'paused' });
    expect(await boxes.resume(id)).toMatchObject({ state: 'ready' });
    await boxes.delete(id);
  });

  test('a hibernated box comes back with its files', async () => {
    const { boxes } = gateway.client;
    const { id } = await gateway.createBox({ env: { TOKEN: 's3cret' } });
    await gateway.run(id, 'x = 41; open("a.txt", "w").write("kept")');
    expect(await boxes.hibernate(id)).toMatchObject({ state: 'hibernated' });
    expect(await text(id, 'import os; (open("a.txt").read(), os.environ["TOKEN"], "x" in dir())')).toBe(
      "('kept', 's3cret', False)",
    );
    expect(await boxes.read(id)).toMatchObject({ state: 'ready', continuity: 'restored' });
    await boxes.delete(id);
  });
});
