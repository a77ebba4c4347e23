import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import type { Chat, ChatTicket, Page } from '#contract';
import { eventually } from '../api/harness.ts';
import { connect } from '../api/websocket.ts';
import { type RunningAgent, startAgent } from './agent-harness.ts';

let agent: RunningAgent;
beforeAll(async () => {
  agent = await startAgent();
});
afterAll(() => agent?.dispose());

test('a chat can be created, read, renamed, listed in pages and deleted', async () => {
  const made = await agent.send<Chat>('POST', '/v1/chats', { title: 'One', approval: 'always' });
  expect(made.status).toBe(201);
  expect(made.headers.get('location')).toBe(`/v1/chats/${made.body.id}`);
  expect(made.body).toMatchObject({ title: 'One', approval: 'always', box: null, running: null });
  const other = await agent.createChat();
  const renamed = await agent.send<Chat>('PATCH', `/v1/chats/${made.body.id}`, { title: 'First', model: 'openai/x' });
  expect(renamed.body).toMatchObject({ title: 'First', model: 'openai/x', approval: 'always' });
  expect((await agent.send('PATCH', `/v1/chats/${made.body.id}`, { model: null })).body.model).toBeNull();

  const first = (await agent.send<Page<Chat>>('GET', '/v1/chats?limit=1')).body;
  expect(first.items.map(({ id }) => id)).toEqual([other.id]);
  const second = (await agent.send<Page<Chat>>('GET', `/v1/chats?limit=1&cursor=${first.nextCursor}`)).body;
  expect(second.items.map(({ title }) => title)).toEqual(['First']);
  expect(second.nextCursor).toBeNull();

  expect((await agent.call(`/v1/chats/${other.id}`, { method: 'DELETE' })).status).toBe(204);
  expect((await agent.call(`/v1/chats/${other.id}`, { method: 'DELETE' })).status).toBe(204);
  expect((await agent.call(`/v1/chats/${other.id}`)).status).toBe(404);
});

test('an unknown model is refused when a chat is created or updated, with a suggestion', async () => {
  const { id } = await agent.createChat();
  for (const [method, path] of [
    ['POST', '/v1/chats'],
    ['PATCH', `/v1/chats/${id}`],
  ] as const) {
    const { status, body } = await agent.send(method, path, { model: 'gpt-5' });
    expect([status, body.errors]).toEqual([
      400,
      [
        {
          pointer: '/model',
          detail: 'must be one that GET /v1/models lists, as provider/name; did you mean openai/gpt-5?',
        },
      ],
    ]);
  }
});

test('bad input is refused with a pointer to the field', async () => {
  const refused = await agent.send('POST', '/v1/chats', { title: '', colour: 'red' });
  expect(refused.status).toBe(400);
  expect(refused.body).toMatchObject({ code: 'invalid_request' });
  expect(JSON.stringify(refused.body.errors)).toContain('/title');
  expect((await agent.send('GET', '/v1/chats?cursor=zzz')).status).toBe(400);
  expect((await agent.call('/v1/chats', { method: 'PUT' })).status).toBe(405);
});

test('deleting a chat ends its box', async () => {
  const chat = await agent.createChat();
  await agent.call(`/v1/chats/${chat.id}/files/a.txt`, { method: 'PUT', body: 'hello' });
  const { box } = (await agent.send<Chat>('GET', `/v1/chats/${chat.id}`)).body;
  expect(box).toMatch(/^box-/);
  await agent.call(`/v1/chats/${chat.id}`, { method: 'DELETE' });
  await eventually(async () => (await agent.gateway.client.boxes.read(box ?? '')).state === 'deleted');
});

test('deleting a chat while its box is being created leaves no box', async () => {
  for (const waitMs of [0, 20, 60, 150]) {
    const chat = await agent.createChat();
    const running = agent.call(`/v1/chats/${chat.id}/cells`, { method: 'POST', body: '{"code": "1"}' });
    await sleep(waitMs);
    expect((await agent.call(`/v1/chats/${chat.id}`, { method: 'DELETE' })).status).toBe(204);
    await (await running).text();
    await eventually(
      async () => (await Array.fromAsync(agent.gateway.client.boxes.list({ user: chat.id }))).length === 0,
    );
  }
});

test('without a model the agent serves its info, documentation and metrics', async () => {
  await agent.gateway.createBox();
  const info = await agent.send('GET', '/v1/info');
  expect(info.body).toMatchObject({ name: 'codebox-agent', isOpen: true, hasModel: false });
  expect(info.body.languages).toContain('python');
  expect((await agent.call('/openapi.json')).status).toBe(200);
  expect((await agent.call('/docs')).status).toBe(200);
  expect(await (await agent.call('/metrics')).text()).toContain('codebox_http_request_duration_seconds');
});

describe('terminals', () => {
  let chat: string;
  beforeAll(async () => {
    chat = (await agent.createChat()).id;
  });

  const ticket = async () => (await agent.send<ChatTicket>('POST', `/v1/chats/${chat}/tickets`)).body;
  const open = (path: string, headers = {}) => connect({ ...agent.gateway, url: agent.url }, path, headers);

  test('a terminal of a chat opens in the folder of its files, and can be resized and ended', async () => {
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

  test('a ticket opens one terminal of its own chat, and not from another site', async () => {
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
});

test('while the gateway is down the agent returns 503, and recovers with it', async () => {
  const chat = await agent.createChat();
  await agent.gateway.stop();
  expect((await agent.send('GET', '/v1/info')).body).toMatchObject({ name: 'codebox-agent' });
  expect((await agent.call('/readyz')).status).toBe(503);
  const refused = await agent.send('POST', `/v1/chats/${chat.id}/cells`, { code: '1' });
  expect(refused).toMatchObject({ status: 503, body: { code: 'unavailable' } });
  await agent.gateway.restart();
  expect((await agent.send('POST', `/v1/chats/${chat.id}/cells`, { code: '1 + 1' })).body.text).toBe('2');
});

test('a chat that chooses no template gets a box of the full one where there is one', async () => {
  const templates = join(agent.gateway.dataDir, 'full.yaml');
  await writeFile(templates, 'python: {}\nfull: { limits: { memoryMb: 320 } }\n');
  const full = await startAgent({}, { CODEBOX_TEMPLATES: templates });
  onTestFinished(() => full.dispose());
  for (const [body, template] of [
    [{}, 'full'],
    [{ template: 'python' }, 'python'],
  ] as const) {
    const chat = await full.createChat(body);
    await full.call(`/v1/chats/${chat.id}/files/a.txt`, { method: 'PUT', body: 'hello' });
    const { box } = (await full.send<Chat>('GET', `/v1/chats/${chat.id}`)).body;
    expect((await full.gateway.client.boxes.read(box ?? '')).template).toBe(template);
  }
});
