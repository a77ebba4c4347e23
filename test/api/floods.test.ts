import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import type { Box } from '#contract';
import { frames, isClosed, mostCpuMsOf, mostCpuMsOfKeys, mostMs } from './flood.ts';
import { anyDriver, eventually, type RunningGateway, startGateway } from './harness.ts';
import { connect } from './websocket.ts';

describe.each(anyDriver)('floods over WebSockets on the %s driver', (driver) => {
  let gateway: RunningGateway;
  let box: Box;
  beforeAll(async () => {
    gateway = await startGateway(driver, { CODEBOX_OPEN_REQUESTS: '16' });
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
