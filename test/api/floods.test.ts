import { type IncomingMessage, request } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import type { Box } from '#contract';
import { frames, isClosed, mostCpuMsOf, mostCpuMsOfKeys, mostMs } from './flood.ts';
import { anyDriver, eventually, type GatewayProcess, startGatewayProcess } from './harness.ts';
import { connect } from './websocket.ts';

describe.each(anyDriver)('floods over WebSockets on the %s driver', (driver) => {
  let gateway: GatewayProcess;
  let box: Box;
  beforeAll(async () => {
    gateway = await startGatewayProcess(driver, { CODEBOX_OPEN_REQUESTS: '16' });
    box = await gateway.createBox();
  });
  afterAll(() => gateway?.dispose());

  test.each([
    ['executions', 'unknown ops', () => '{"op":"zzz"}'],
    ['executions', 'invalid JSON', () => '{'],
    ['executions', 'pings', () => '{"op":"ping"}'],
    ['executions', 'interrupts', (n: number) => `{"id":"${n}","op":"interrupt","execution":"exe-${'a'.repeat(26)}"}`],
    ['executions', 'inputs', (n: number) => `{"id":"${n}","op":"input","execution":"exe-${'a'.repeat(26)}","text":""}`],
    ['terminal', 'invalid JSON', () => '{'],
    ['terminal', 'absurd sizes', () => '{"type":"resize","cols":1e9,"rows":-1,"x":1}'],
  ])('%s: a flood of %s ends the connection and delays no other caller', async (kind, _, frame) => {
    const socket = await connect(gateway, `/v1/boxes/${box.id}/${kind === 'terminal' ? 'terminal' : 'ws'}`);
    for (let n = 0; n < frames; n++) socket.ws.send(frame(n));
    expect(await mostCpuMsOf(gateway, () => isClosed(socket))).toBeLessThan(mostMs);
    expect(await socket.closed).toEqual({ code: 1008, reason: 'Too many messages brought nothing.' });
  });

  test('keys typed into a terminal, one message each, all arrive and delay no other caller', async () => {
    const socket = await connect(gateway, `/v1/boxes/${box.id}/terminal`);
    await socket.json(({ type }) => type === 'ready');
    expect(await mostCpuMsOfKeys(gateway, socket)).toBeLessThan(mostMs);
    socket.ws.close();
    await socket.closed;
  });

  test.each([
    ['an execution', () => `/v1/boxes/${box.id}/executions`, 7_000_000],
    // The response has the output twice, and is stored up to 8 MiB.
    ['a run whose response is stored', () => '/v1/run', 3_500_000],
  ])('repeated requests of %s have four responses in memory at a time, until they are read', async (_, path, size) => {
    const headers = { 'idempotency-key': `large ${path()}` };
    const code = { language: 'python', code: `print("x" * ${size})` };
    const ask = async () => JSON.stringify((await gateway.post(path(), code, headers)).body).length;
    expect(await ask()).toBeGreaterThan(7_000_000);
    const askAndReadNothing = () =>
      new Promise<IncomingMessage>((done) => {
        const authorization = `Bearer ${gateway.key}`;
        const type = { 'content-type': 'application/json' };
        const options = { method: 'POST', agent: false, headers: { ...headers, ...type, authorization } };
        const sent = request(`${gateway.url}${path()}`, options, done);
        sent.on('error', () => {});
        sent.end(JSON.stringify(code));
      });
    const unread = await Promise.all(Array.from({ length: 4 }, askAndReadNothing));
    expect(unread.map(({ statusCode }) => statusCode)).toEqual([200, 200, 200, 200]);
    let isRead = false;
    const fifth = ask().finally(() => {
      isRead = true;
    });
    await sleep(1000);
    expect(isRead).toBe(false);
    unread[0]?.destroy();
    expect(await fifth).toBeGreaterThan(7_000_000);
    for (const response of unread) response.destroy();
  });

  test('the open requests of a tenant are bounded, and ended ones make room', async () => {
    // Sockets of earlier tests are counted down only when their connections are closed.
    await eventually(async () => !/^codebox_open_sockets.* [1-9]/m.test(await (await gateway.call('/metrics')).text()));
    const end = new AbortController();
    const follow = () => gateway.call(`/v1/boxes/${box.id}/stats?everySeconds=60`, stream(end.signal));
    const open = await Promise.all(Array.from({ length: 16 }, follow));
    expect(open.map(({ status }) => status)).toEqual(Array(16).fill(200));
    const refused = await gateway.call('/v1/templates');
    expect([refused.status, refused.headers.get('retry-after')]).toEqual([429, '5']);
    end.abort();
    await vi.waitUntil(async () => (await gateway.call('/v1/templates')).status === 200, { timeout: 10_000 });
  });
});

const stream = (signal: AbortSignal): RequestInit => ({ headers: { accept: 'application/x-ndjson' }, signal });
