import { once } from 'node:events';
import { get, type IncomingMessage } from 'node:http';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Execution, ExecutionEvent } from '#contract';
import { inWaves } from '../bench/in-waves.ts';
import { anyDriver, collect, eventually, type GatewayProcess, readEvents, startGateways, streamOf } from './harness.ts';

const readers = 2000;

// Sharing a connection among readers does not depend on the driver.
describe.each(anyDriver)('many readers of one box on the %s driver', (driver) => {
  let a: GatewayProcess;
  let b: GatewayProcess;
  let at: string;
  let box: string;
  beforeAll(async () => {
    const settings = { CODEBOX_READERS: String(2 * readers) };
    [a, b] = (await startGateways(driver, 2, settings)) as [GatewayProcess, GatewayProcess];
    box = (await a.createBox()).id;
    at = `/v1/boxes/${box}`;
  });
  afterAll(() => a?.dispose());

  /** Starts code that waits for input before it goes on. */
  const start = async (code: string): Promise<string> => {
    const ask = { code: `print("begun")\nprint(input())\n${code}`, detach: true, timeoutSeconds: 300 };
    return (await a.post<Execution>(`${at}/executions`, ask)).body.id;
  };
  const goOn = (gateway: GatewayProcess, id: string) => gateway.post(`${at}/executions/${id}/input`, { text: 'on' });
  const open = (gateway: GatewayProcess, id: string, after: number) =>
    gateway.call(`${at}/executions/${id}/events?after=${after}`, { headers: { accept: 'application/x-ndjson' } });
  const eventsOf = (text: string): ExecutionEvent[] => {
    const lines = text.split('\n').filter((line) => line !== '');
    return lines.map((line) => JSON.parse(line));
  };
  const expectWhole = (events: ExecutionEvent[], after: number) => {
    expect(events.map(({ seq }) => seq)).toEqual(events.map((_, n) => after + n + 1));
    expect(events.at(-1)).toMatchObject({ type: 'done', status: 'ok' });
  };

  test('each gets all events, one more is refused, and other requests to the box are served meanwhile', async () => {
    const id = await start('for n in range(5): print(n)');
    const streams = await inWaves(readers, 200, (n) => open(a, id, n % 3));
    expect(new Set(streams.map(({ status }) => status))).toEqual(new Set([200]));
    const all = Promise.all(streams.map(async (stream) => eventsOf(await stream.text())));
    const refused = await open(a, id, 0);
    expect([refused.status, await refused.json()]).toMatchObject([429, { code: 'too_many_requests' }]);
    expect(refused.headers.get('retry-after')).toBe('5');
    // While all streams wait, the box runs code and a command, stores a file, and takes the input that continues the run.
    expect((await a.run(box, 'echo from bash', { language: 'bash' })).status).toBe('ok');
    expect((await a.post(`${at}/commands`, { command: 'true' })).status).toBe(200);
    expect((await a.call(`${at}/files/a.txt`, { method: 'PUT', body: 'x' })).status).toBe(201);
    expect((await goOn(a, id)).status).toBe(204);
    for (const [n, events] of (await all).entries()) {
      expectWhole(events, n % 3);
      expect(streamOf(events, 'stdout')).toContain('on\n');
    }
    // Readers that have left make room.
    await eventually(async () => (await open(a, id, 0)).status === 200);
  });

  test('a reader that reads nothing delays no other, and gets all events later', async () => {
    const id = await start('for n in range(700): print("x" * 10_000)');
    const headers = { authorization: `Bearer ${a.key}` };
    const request = get(`${a.url}${at}/executions/${id}/events`, { headers });
    const [slow] = (await once(request, 'response')) as [IncomingMessage];
    const others = Array.from({ length: 3 }, async () => eventsOf(await (await open(a, id, 0)).text()));
    await goOn(a, id);
    for (const events of await Promise.all(others)) expectWhole(events, 0);
    expectWhole(eventsOf(Buffer.concat(await collect<Buffer>(slow)).toString()), 0);
  });

  test('readers of a killed gateway go on at another one without a gap or a repeat', async () => {
    const id = await start('import time\nfor n in range(10):\n  print(n)\n  time.sleep(0.1)\ninput()');
    const seen = Array.from({ length: 100 }, (): ExecutionEvent[] => []);
    const read = async (gateway: GatewayProcess, events: ExecutionEvent[]) => {
      const response = await open(gateway, id, events.at(-1)?.seq ?? 0);
      for await (const event of readEvents(response)) events.push(event);
    };
    const cut = Promise.allSettled(seen.map((events) => read(b, events)));
    await goOn(a, id);
    await eventually(async () => seen.every((events) => events.length > 4));
    await b.kill('SIGKILL');
    expect(new Set((await cut).map(({ status }) => status))).toEqual(new Set(['rejected']));
    const rest = Promise.all(seen.map((events) => read(a, events)));
    await eventually(async () => (await goOn(a, id)).status === 204);
    await rest;
    for (const events of seen) expectWhole(events, 0);
  });
});
