import { afterAll, beforeAll, expect, test } from 'vitest';
import type { ChatTicket } from '#contract';
import { connect } from '../api/websocket.ts';
import { type RunningAgent, startAgent } from './agent-harness.ts';

let agent: RunningAgent;
let chat: string;
beforeAll(async () => {
  agent = await startAgent();
  chat = (await agent.createChat()).id;
});
afterAll(() => agent?.dispose());

const ticket = async () => (await agent.send<ChatTicket>('POST', `/v1/chats/${chat}/tickets`)).body;
const open = (path: string, headers = {}) => connect({ ...agent.gateway, url: agent.url }, path, headers);

test('a terminal of a chat is typed into, resized and ended, in the folder of its files', async () => {
  await agent.call(`/v1/chats/${chat}/files/here.txt`, { method: 'PUT', body: 'x' });
  const { url } = await ticket();
  expect(url).not.toContain(agent.gateway.key);
  const socket = await open(`${url}&cols=90&rows=20`);
  expect(await socket.json(({ type }) => type === 'ready')).toMatchObject({ cols: 90, rows: 20 });
  socket.sendJson({ type: 'resize', cols: 77, rows: 11 });
  socket.sendBytes('stty size; ls\n');
  await socket.text(/11 77\s[\s\S]*here\.txt/);
  socket.sendBytes('exit\n');
  expect(await socket.json(({ type }) => type === 'exit')).toMatchObject({ exitCode: 0 });
  expect((await socket.closed).code).toBe(1000);
});

test('a ticket opens one terminal of its own chat, and no other site may use it', async () => {
  const { url } = await ticket();
  const other = await agent.createChat();
  await expect(open(url.replace(chat, other.id))).rejects.toMatchObject({ status: 401 });
  await expect(open(url, { origin: 'https://evil.example' })).rejects.toMatchObject({ status: 403 });
  const socket = await open(url, { origin: agent.url });
  await socket.json(({ type }) => type === 'ready');
  socket.ws.close();
  await expect(open(url)).rejects.toMatchObject({ status: 401 });
  await expect(open(`/v1/chats/${chat}/terminal`)).rejects.toMatchObject({ status: 401 });
});
