import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Execution } from '#contract';
import { anyDriver, collect, type RunningGateway, readEvents, startGateway, streamOf } from './harness.ts';

const readers = 560;

// Sharing a connection among readers does not depend on the driver.
describe.each(anyDriver)('many readers of one box on the %s driver', (driver) => {
  let gateway: RunningGateway;
  beforeAll(async () => {
    gateway = await startGateway(driver);
  });
  afterAll(() => gateway?.dispose());

  test('each gets all events, and other requests to the box are served meanwhile', async () => {
    const box = await gateway.createBox();
    const at = `/v1/boxes/${box.id}`;
    const code = 'print("begun")\nprint(input())\nfor n in range(20): print(n)';
    const { body } = await gateway.post<Execution>(`${at}/executions`, { code, detach: true, timeoutSeconds: 300 });
    const open = async (n: number) => {
      const response = await gateway.call(`${at}/executions/${body.id}/events?after=${n % 2}`, {
        headers: { accept: 'application/x-ndjson' },
      });
      expect(response.status).toBe(200);
      return response;
    };
    const streams = await Promise.all(Array.from({ length: readers }, (_, n) => open(n)));
    const all = Promise.all(streams.map((stream) => collect(readEvents(stream))));
    // While all streams wait, the box runs code and a command, stores a file, and takes the input that continues the run.
    expect((await gateway.run(box.id, 'echo from bash', { language: 'bash' })).status).toBe('ok');
    expect((await gateway.post(`${at}/commands`, { command: 'true' })).status).toBe(200);
    expect((await gateway.call(`${at}/files/a.txt`, { method: 'PUT', body: 'x' })).status).toBe(201);
    expect((await gateway.post(`${at}/executions/${body.id}/input`, { text: 'on' })).status).toBe(204);
    for (const [n, events] of (await all).entries()) {
      expect(events.map(({ seq }) => seq)).toEqual(events.map((_, at) => at + 1 + (n % 2)));
      expect(events.at(-1)).toMatchObject({ type: 'done', status: 'ok' });
      expect(streamOf(events, 'stdout')).toContain('begun\n');
    }
  });
});
