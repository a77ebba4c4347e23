import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Box } from '#contract';
import { frames, isClosed, mostCpuMsOf, mostCpuMsOfKeys, mostMs } from './flood.ts';
import { anyDriver, lean, type RunningGateway, startGateway } from './harness.ts';
import { connect } from './websocket.ts';

describe.each(anyDriver)('floods over WebSockets on the %s driver', (driver) => {
  let gateway: RunningGateway;
  let box: Box;
  beforeAll(async () => {
    gateway = await startGateway(driver);
    box = await gateway.createBox(lean);
  });
  afterAll(() => gateway?.dispose());

  test.each([
    ['executions', 'an unknown op', () => '{"op":"zzz"}'],
    ['executions', 'no JSON', () => '{'],
    ['executions', 'pings', () => '{"op":"ping"}'],
    ['executions', 'interrupts', (n: number) => `{"id":"${n}","op":"interrupt","execution":"exe-${'a'.repeat(26)}"}`],
    ['executions', 'inputs', (n: number) => `{"id":"${n}","op":"input","execution":"exe-${'a'.repeat(26)}","text":""}`],
    ['terminal', 'no JSON', () => '{'],
    ['terminal', 'an absurd size', () => '{"type":"resize","cols":1e9,"rows":-1,"x":1}'],
  ])('%s: %s end the connection, and hold up nobody else', async (kind, _, frame) => {
    const socket = await connect(gateway, `/v1/boxes/${box.id}/${kind === 'terminal' ? 'terminal' : 'ws'}`);
    for (let n = 0; n < frames; n++) socket.ws.send(frame(n));
    expect(await mostCpuMsOf(gateway, () => isClosed(socket))).toBeLessThan(mostMs);
    expect(await socket.closed).toEqual({ code: 1008, reason: 'Too many messages brought nothing.' });
  });

  test('keys of a terminal, one message each, all arrive and hold up nobody else', async () => {
    const socket = await connect(gateway, `/v1/boxes/${box.id}/terminal`);
    await socket.json(({ type }) => type === 'ready');
    expect(await mostCpuMsOfKeys(gateway, socket)).toBeLessThan(mostMs);
  });
});
