import { mkdtemp, rm } from 'node:fs/promises';
import { createServer, type Server, type ServerResponse } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import { CodeBoxError, type CommandEvent, commandEventSchema, type ExecutionEvent, hasCode } from '#contract';
import { type BoxServerClient, createBoxServerClient } from '../../box-server/client.ts';
import { follow, readUpTo } from './journal.ts';

let folder: string;
let server: Server;
let client: BoxServerClient;
let connections = 0;
let lossChecks = 0;
let respond: (response: ServerResponse) => void;

const done = { type: 'done', status: 'ok', durationMs: 1, exitCode: 0, signal: null };
const lines = (...events: unknown[]) => events.map((event) => `${JSON.stringify(event)}\n`).join('');
const hello = { seq: 1, type: 'stdout', text: 'hello' };

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'codebox-journal-'));
  server = createServer((_, response) => {
    connections += 1;
    response.writeHead(200, { 'content-type': 'application/x-ndjson' });
    respond(response);
  });
  const path = join(folder, 'box.sock');
  await new Promise<void>((listening) => server.listen(path, listening));
  client = createBoxServerClient({ instance: 'i-1', address: `unix:${path}`, token: 'token' });
});
beforeEach(() => {
  connections = 0;
  lossChecks = 0;
});
afterAll(async () => {
  await client?.close();
  server?.closeAllConnections();
  await new Promise((closed) => server.close(closed));
  await rm(folder, { recursive: true });
});

const read = async (diagnose = async () => undefined): Promise<CommandEvent[]> => {
  const causeOfLoss = () => {
    lossChecks += 1;
    return diagnose();
  };
  const lost = (seq: number, cause: { code: string; detail?: string }): CommandEvent =>
    ({ seq, ...done, status: 'lost', cause, exitCode: null }) as CommandEvent;
  return await Array.fromAsync(
    follow<CommandEvent>({
      server: client,
      journal: 'commands/c-1',
      schema: commandEventSchema,
      after: 0,
      causeOfLoss,
      lost,
    }),
  );
};

const hostile: [string, (response: ServerResponse) => void][] = [
  ['a line that is not JSON', (response) => response.end(`${lines(hello)}nonsense\n`)],
  ['an event of a wrong shape', (response) => response.end(lines(hello, { seq: 2, type: 'stdout', text: 7 }))],
  ['a number that is not the next', (response) => response.end(lines(hello, { ...hello, seq: 5 }))],
  ['a line without end', (response) => void response.write(lines(hello) + 'x'.repeat(33 * 1024 * 1024))],
];

test.each(hostile)('%s ends a run at once as lost, without a retry', async (_, sent) => {
  respond = sent;
  expect(await read()).toEqual([
    hello,
    expect.objectContaining({ seq: 2, cause: expect.objectContaining({ code: 'protocol_error' }) }),
  ]);
  expect([connections, lossChecks]).toEqual([1, 0]);
});

test('a connection that breaks is resumed', async () => {
  respond = (response) => {
    if (connections === 1) response.write(lines(hello), () => response.destroy());
    else response.end(lines({ seq: 2, ...done }));
  };
  expect(await read()).toMatchObject([hello, { seq: 2, status: 'ok' }]);
  expect(connections).toBe(2);
});

test('nobody waits for a box on a silent node', async () => {
  respond = (response) => response.write(lines(hello), () => response.destroy());
  const silence = new CodeBoxError('unavailable', 'The node of the box is silent.', { reason: 'node_silent' });
  await expect(read(() => Promise.reject(silence))).rejects.toBe(silence);
  expect([connections, lossChecks]).toEqual([1, 1]);
});

test('a malformed response is a protocol error', async () => {
  for (const text of ['nonsense', '{"id": 7}']) {
    respond = (response) => response.end(text);
    const thrown = await client.readCommand('c-1').catch((error: unknown) => error);
    expect(hasCode(thrown, 'unavailable', 'protocol')).toBe(true);
  }
});

test('the beginning of a long text is collected, and the rest is counted', async () => {
  const text = 'é'.repeat(1024 * 1024);
  async function* events(): AsyncGenerator<ExecutionEvent> {
    for (let seq = 1; seq <= 10; seq++) yield { type: 'stdout', seq, text };
    yield { type: 'stderr', seq: 11, text: 'x' };
    yield { type: 'clear', seq: 12, wait: false };
  }
  const found = await readUpTo(events(), 12);
  expect(found.map(({ type }) => type)).toEqual([...Array(8).fill('stdout'), 'truncated', 'clear']);
  expect(found[8]).toEqual({ type: 'truncated', seq: 9, droppedBytes: 4 * 1024 * 1024 + 1, droppedEvents: 3 });
});
