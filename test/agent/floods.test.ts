import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { ChatTicket } from '#contract';
import { frames, isClosed, mostCpuMsOf, mostCpuMsOfKeys, mostMs } from '../api/flood.ts';
import { connect } from '../api/websocket.ts';
import { type AgentProcess, startAgentProcess } from './agent-harness.ts';

describe('floods over the terminals of chats', () => {
  let agent: AgentProcess;
  let chat: string;
  beforeAll(async () => {
    agent = await startAgentProcess();
    chat = (await agent.createChat()).id;
  });
  afterAll(() => agent?.dispose());

  const open = async () => {
    const { body } = await agent.send<ChatTicket>('POST', `/v1/chats/${chat}/tickets`);
    const socket = await connect({ ...agent.gateway, url: agent.url }, body.url, {});
    await socket.json(({ type }) => type === 'ready');
    return socket;
  };

  test.each([
    ['unknown types', () => '{"type":"zzz"}'],
    ['invalid JSON', () => '{'],
    ['empty messages', () => ''],
    ['absurd sizes', () => '{"type":"resize","cols":1e9,"rows":-1,"x":1}'],
  ])('a flood of %s ends the connection and delays no other caller', async (_, frame) => {
    const socket = await open();
    for (let n = 0; n < frames; n++) socket.ws.send(frame());
    expect(await mostCpuMsOf(agent, () => isClosed(socket))).toBeLessThan(mostMs);
    expect(await socket.closed).toEqual({ code: 1008, reason: 'Too many messages brought nothing.' });
  });

  test('a flood of protocol pings ends the connection and delays no other caller', async () => {
    const socket = await open();
    for (let n = 0; n < frames; n++) socket.ws.ping();
    expect(await mostCpuMsOf(agent, () => isClosed(socket))).toBeLessThan(mostMs);
    expect((await socket.closed).code).toBe(1006);
  });

  test('keys, one message each, all arrive and delay no other caller', async () => {
    const socket = await open();
    expect(await mostCpuMsOfKeys(agent, socket)).toBeLessThan(mostMs);
  });
});
