import { afterAll, beforeAll, expect, test } from 'vitest';
import type { Box, Chat, ExecutionEvent } from '#contract';
import { eventually, readEvents } from '../api/harness.ts';
import { type RunningAgent, startAgent } from './agent-harness.ts';

let agent: RunningAgent;
let cells: string;
beforeAll(async () => {
  agent = await startAgent();
  cells = `/v1/chats/${(await agent.createChat()).id}/cells`;
});
afterAll(() => agent?.dispose());

const stream = (body: Record<string, unknown>) =>
  agent.call(cells, { method: 'POST', body: JSON.stringify(body), headers: { accept: 'application/x-ndjson' } });

test('cells of a chat share variables, and their events are those of the gateway', async () => {
  expect((await agent.send('POST', cells, { code: 'x = 20' })).body).toMatchObject({ status: 'ok' });
  const events: ExecutionEvent[] = [];
  for await (const event of readEvents(await stream({ code: 'print("hi")\nx + 1' }))) events.push(event);
  expect(events.map(({ type }) => type)).toEqual(['started', 'stdout', 'result', 'done']);
  expect(events[2]).toMatchObject({ mime: { 'text/plain': '21' } });
  const sum = await agent.send('POST', cells, { code: '1 + 2', language: 'javascript' });
  expect(sum.body.text).toBe('3');
  const waited = await agent.send('POST', cells, { code: 'import asyncio\nawait asyncio.sleep(0.01, x)' });
  expect(waited.body).toMatchObject({ status: 'ok', text: '20' });
});

test('a cell can be interrupted and given input by its id', async () => {
  const response = await stream({ code: 'name = input("who? ")\nprint("known")\nimport time\ntime.sleep(100)' });
  const at = response.headers.get('content-location') ?? '';
  const seen: string[] = [];
  for await (const event of readEvents(response)) {
    seen.push(event.type);
    if (event.type === 'input_request')
      expect((await agent.send('POST', `${at}/input`, { text: 'Eve' })).status).toBe(204);
    if (event.type === 'stdout') expect((await agent.call(`${at}/interrupt`, { method: 'POST' })).status).toBe(202);
  }
  expect(seen.at(-1)).toBe('done');
  expect((await agent.send('POST', cells, { code: 'name' })).body.text).toBe("'Eve'");
});

test('a cell can be followed from any point, while it runs and when it has ended', async () => {
  const code = 'print("first")\nname = input("on? ")\nprint("second")';
  const response = await stream({ code });
  const at = response.headers.get('content-location') ?? '';
  const follow = async (path: string) => {
    const events: ExecutionEvent[] = [];
    for await (const event of readEvents(await agent.call(path))) events.push(event);
    return events;
  };
  for await (const event of readEvents(response)) if (event.type === 'input_request') break;
  const live = follow(`${at}/events`);
  expect((await agent.send('POST', `${at}/input`, { text: 'yes' })).status).toBe(204);
  const all = await live;
  expect(all.map(({ type }) => type)).toEqual(['started', 'stdout', 'input_request', 'stdout', 'done']);
  expect(await follow(`${at}/events?after=3`)).toEqual(all.slice(3));
  // Readers get the end of a run some milliseconds before it is recorded.
  await eventually(async () => (await agent.call(`${at}/events?after=${all.length}`)).status === 204);
  const sse = await agent.call(`${at}/events`, { headers: { accept: 'text/event-stream', 'last-event-id': '4' } });
  expect(await sse.text()).toContain('event: done');

  expect((await agent.send('GET', `${cells}/exe-unknown/events`)).status).toBe(404);
  const other = await agent.createChat();
  const elsewhere = at.replace(/chats\/[^/]+/, `chats/${other.id}`);
  expect((await agent.send('GET', `${elsewhere}/events`)).body).toMatchObject({
    detail: 'There is no such cell: the chat has no box yet.',
  });
});

test('a cell in an unknown language is a 400', async () => {
  expect((await agent.send('POST', cells, { code: '1', language: 'cobol' })).status).toBe(400);
});

test('boxes of chats have the network that the operator chooses, else that of their template', async () => {
  const networkOf = async () => {
    const { id } = await agent.createChat();
    expect((await agent.send('POST', `/v1/chats/${id}/cells`, { code: '1' })).status).toBe(200);
    const { box } = (await agent.send<Chat>('GET', `/v1/chats/${id}`)).body;
    const { url, key } = agent.gateway;
    const response = await fetch(`${url}/v1/boxes/${box}`, { headers: { authorization: `Bearer ${key}` } });
    return ((await response.json()) as Box).network;
  };
  expect(await networkOf()).toBe('none');
  await agent.stop();
  await agent.restart({ CODEBOX_CHAT_NETWORK: 'internet' });
  expect(await networkOf()).toBe('internet');
});
