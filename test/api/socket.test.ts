import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type Box, type Execution, type ExecutionEvent, socketMessageSchema, type Ticket } from '#contract';
import { keyId, makeKey } from '../../services/gateway/http/admission/auth.ts';
import { openStore } from '../../services/gateway/store/store.ts';
import {
  anyDriver,
  databaseUrl,
  eventually,
  type GatewayProcess,
  memoryOf,
  startGatewayProcess,
  streamOf,
} from './harness.ts';
import { connect, refusalOf, type TestSocket } from './websocket.ts';

describe.each(anyDriver)('the WebSocket API on the %s driver', (driver) => {
  let gateway: GatewayProcess;
  let box: Box;
  beforeAll(async () => {
    gateway = await startGatewayProcess(driver, { CODEBOX_SWEEP_SECONDS: '1' });
    box = await gateway.createBox();
  });
  afterAll(() => gateway?.dispose());

  const open = (id = box.id) => connect(gateway, `/v1/boxes/${id}/ws`);
  const read = async (execution: unknown) =>
    (await gateway.get<Execution>(`/v1/boxes/${box.id}/executions/${execution}`)).body;

  test('code runs in the order in which it was sent', async () => {
    const socket = await open();
    socket.sendJson({ id: '0', op: 'execute', code: 'seen = []' });
    for (let n = 1; n <= 12; n++) socket.sendJson({ id: `${n}`, op: 'execute', code: `seen.append(${n})` });
    socket.sendJson({ id: 'last', op: 'execute', code: 'print(seen)' });
    expect(streamOf(await eventsOf(socket, 'last'), 'stdout')).toBe('[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]\n');
    socket.ws.close();
  });

  test('one connection carries many executions, each with its own events in order', async () => {
    const socket = await open();
    socket.sendJson({ id: 'a', op: 'execute', code: 'x = 41\nprint("from a")' });
    socket.sendJson({ id: 'b', op: 'execute', code: 'echo from b', language: 'bash' });
    socket.sendJson({ id: 'c', op: 'execute', code: 'import os\nprint(x + 1, os.environ["K"])', env: { K: 'v' } });
    expect(streamOf(await eventsOf(socket, 'a'), 'stdout')).toBe('from a\n');
    expect(streamOf(await eventsOf(socket, 'b'), 'stdout')).toBe('from b\n');
    const events = await eventsOf(socket, 'c');
    expect(streamOf(events, 'stdout')).toBe('42 v\n');
    expect(events.map(({ seq }) => seq)).toEqual(events.map((_, index) => index + 1));
    for (const message of socket.messages) expect(socketMessageSchema.parse('json' in message && message.json));
    const { execution } = await socket.json(({ id, type }) => id === 'c' && type === 'accepted');
    await eventually(async () => (await read(execution)).status === 'ok');
    socket.ws.close();
  });

  test('input, interrupt and ping are accepted', async () => {
    const socket = await open();
    socket.sendJson({ id: 'ask', op: 'execute', code: 'name = input("Who? ")\nprint("Hello", name)' });
    const prompt = await socket.json(({ event }) => (event as ExecutionEvent | undefined)?.type === 'input_request');
    socket.sendJson({ id: 'answer', op: 'input', execution: prompt.execution, text: 'Ada' });
    expect(await socket.json(({ id }) => id === 'answer')).toMatchObject({ type: 'accepted' });
    expect(streamOf(await eventsOf(socket, 'ask'), 'stdout')).toContain('Hello Ada');
    socket.sendJson({ id: 'loop', op: 'execute', code: 'print("in")\nwhile True: pass' });
    await socket.json(({ id, event }) => id === 'loop' && (event as ExecutionEvent | undefined)?.type === 'stdout');
    const { execution } = await socket.json(({ id }) => id === 'loop');
    socket.sendJson({ id: 'stop', op: 'interrupt', execution });
    expect((await eventsOf(socket, 'loop')).at(-1)).toMatchObject({ type: 'done', status: 'interrupted' });
    socket.sendJson({ id: 'stop', op: 'interrupt', execution });
    expect(await socket.json(({ id, type }) => id === 'stop' && type === 'problem')).toMatchObject({
      problem: { status: 409, code: 'conflict' },
    });
    socket.sendJson({ op: 'ping' });
    await socket.json(({ type }) => type === 'pong');
    socket.ws.close();
  });

  test('closing the connection ends no run, and another connection resumes after the last event', async () => {
    const first = await open();
    first.sendJson({ id: '1', op: 'execute', code: 'import time\nfor i in range(20): print(i); time.sleep(0.1)' });
    const seen = await first.json(({ event }) => (event as ExecutionEvent | undefined)?.seq === 3);
    first.ws.terminate();
    await sleep(300);
    const second = await open();
    second.sendJson({ id: 'again', op: 'attach', execution: seen.execution, after: 3 });
    const events = await eventsOf(second, 'again');
    expect(events[0]?.seq).toBe(4);
    expect(events.at(-1)).toMatchObject({ type: 'done', status: 'ok' });
    expect(streamOf(events, 'stdout')).toMatch(/19\n$/);
    second.sendJson({ id: 'late', op: 'attach', execution: seen.execution, after: events.at(-1)?.seq });
    expect(await eventsOf(second, 'late')).toEqual([events.at(-1)]);
    expect(streamOf((await read(seen.execution)).outputs, 'stdout')).toBe(
      Array.from({ length: 20 }, (_, i) => `${i}\n`).join(''),
    );
    second.ws.close();
  });

  test('operations not yet started when the connection closes never run, and none is recorded as lost', async () => {
    const own = await gateway.createBox();
    const list = async () =>
      (await gateway.get<{ items: Execution[] }>(`/v1/boxes/${own.id}/executions?limit=100`)).body.items;
    await gateway.run(own.id, 'n = 0');
    const socket = await open(own.id);
    for (let n = 0; n < 60; n++) socket.sendJson({ id: `${n}`, op: 'execute', code: 'n += 1' });
    await socket.json(({ type }) => type === 'accepted');
    socket.ws.terminate();
    // Executions that it has begun to start are still in progress.
    const items = await eventually(async () => {
      const before = await list();
      await sleep(1000);
      const found = await list();
      return found.length === before.length && found.every(({ status }) => status !== 'running') && found;
    });
    expect(items.filter(({ status }) => status !== 'ok')).toEqual([]);
    expect((await gateway.run(own.id, 'n')).text).toBe(String(items.length - 1));
    await gateway.client.boxes.delete(own.id);
  });

  test('an invalid operation gets the problem that HTTP would return, and the connection stays open', async () => {
    const socket = await open();
    const missing = `exe-${'a'.repeat(26)}`;
    const cases: [string, unknown, Record<string, unknown>][] = [
      ['1', { id: '1', op: 'execute' }, { status: 400, errors: [{ pointer: '/code' }] }],
      ['2', { id: '2', op: 'execute', code: '1', detach: true }, { status: 400, errors: [{ pointer: '/detach' }] }],
      ['3', { id: '3', op: 'attach', execution: missing }, { status: 404, code: 'not_found' }],
      ['4', { id: '4', op: 'execute', code: '1', context: 'none' }, { status: 404 }],
      ['5', { id: '5', op: 'fly' }, { status: 400, errors: [{ pointer: '/op' }] }],
      ['6', { id: '6', op: 'execute', code: '1', context: 'c', language: 'bash' }, { status: 400 }],
      ['7', { id: '7', op: 'input', execution: missing, text: '' }, { status: 404 }],
    ];
    for (const [id, frame, problem] of cases) {
      socket.sendJson(frame);
      const message = await socket.json((each) => each.id === id);
      expect(message).toMatchObject({ type: 'problem', problem });
      socketMessageSchema.parse(message);
    }
    for (const text of ['{', '[]', 'null', '"x"', '{"id": 5, "op": "ping"}']) socket.ws.send(text);
    await eventually(async () => socket.messages.filter((m) => 'json' in m && m.json.id === null).length === 5);
    socket.sendJson({ id: 'after', op: 'execute', code: '6 * 7' });
    expect((await eventsOf(socket, 'after')).find(({ type }) => type === 'result')).toMatchObject({
      mime: { 'text/plain': '42' },
    });
    socket.sendBytes('binary');
    expect(await socket.closed).toEqual({ code: 1003, reason: 'Send text frames.' });
  });

  test('the operations in progress are bounded, and an id in use is refused', async () => {
    const socket = await open();
    socket.sendJson({ id: 'long', op: 'execute', code: 'import time; time.sleep(60)', timeoutSeconds: 30 });
    const { execution } = await socket.json(({ id }) => id === 'long');
    socket.sendJson({ id: 'long', op: 'attach', execution });
    expect(await socket.json(({ type }) => type === 'problem')).toMatchObject({ id: 'long', problem: { status: 409 } });
    for (let n = 0; n < 64; n++) socket.sendJson({ id: `n${n}`, op: 'attach', execution });
    expect(await socket.json(({ id, type }) => id === 'n63' && type === 'problem')).toMatchObject({
      problem: { status: 429, code: 'too_many_requests' },
    });
    expect(await socket.json(({ id }) => id === 'n62')).toMatchObject({ type: 'accepted' });
    await gateway.post(`/v1/boxes/${box.id}/executions/${execution}/interrupt`, {});
    expect((await eventsOf(socket, 'n62')).at(-1)).toMatchObject({ status: 'interrupted' });
    socket.ws.close();
  });

  test('a client that stops reading costs the gateway no memory and loses no events', async () => {
    const socket = await open();
    const { now: before } = await memoryOf(gateway.pid());
    socket.sendJson({ id: 'f', op: 'execute', code: 'for i in range(7000): print("y" * 1000)' });
    const { execution } = await socket.json(({ id }) => id === 'f');
    socket.ws.pause();
    await eventually(async () => (await read(execution)).status === 'ok');
    expect((await memoryOf(gateway.pid())).now - before).toBeLessThan(96 * 1024 * 1024);
    expect((await gateway.run(box.id, '1 + 1')).text).toBe('2');
    socket.ws.resume();
    const events = await eventsOf(socket, 'f');
    expect(streamOf(events, 'stdout').length).toBe(7000 * 1001);
    socket.ws.close();
  });

  test('messages are not read while large ones wait for their start', async () => {
    // Something that accepts connections and never responds, so that the first start waits for its file.
    await gateway.run(box.id, 'import socket\nmute = socket.create_server(("127.0.0.1", 5999))');
    const socket = await open();
    const files = [{ path: 'late', url: 'http://127.0.0.1:5999/' }];
    socket.sendJson({ id: 'first', op: 'execute', code: '1', files });
    const base64 = Buffer.alloc(7 * 1024 * 1024).toString('base64');
    for (let n = 0; n < 6; n++)
      socket.sendJson({ id: `n${n}`, op: 'execute', code: '1', files: [{ path: 'large', base64 }] });
    await sleep(1500);
    expect(socket.ws.bufferedAmount).toBeGreaterThan(2 * base64.length);
    await gateway.run(box.id, 'mute.close()');
    expect(await socket.json(({ id }) => id === 'first')).toMatchObject({ type: 'problem' });
    expect((await eventsOf(socket, 'n5')).at(-1)).toMatchObject({ status: 'ok' });
    socket.ws.close();
  });

  test('a connection is refused before the upgrade, accepts a ticket, and ends with its box or its key', async () => {
    const path = `/v1/boxes/${box.id}/ws`;
    expect(await refusalOf(gateway, path, {})).toMatchObject({ status: 401, problem: { code: 'unauthorized' } });
    const other = { authorization: `Bearer ${await gateway.addTenant()}` };
    expect(await refusalOf(gateway, path, other)).toMatchObject({ status: 404, problem: { code: 'not_found' } });
    expect((await gateway.call(path)).status).toBe(426);
    const { ticket } = (await gateway.post<Ticket>(`/v1/boxes/${box.id}/tickets`, {})).body;
    const socket = await connect(gateway, `${path}?ticket=${ticket}`, {});
    socket.sendJson({ id: '1', op: 'execute', code: '1' });
    await eventsOf(socket, '1');
    const revoked = await openRevoked(gateway);
    await gateway.call(`/v1/boxes/${box.id}`, { method: 'DELETE' });
    socket.sendJson({ id: '2', op: 'execute', code: '1' });
    // If the gateway has just checked the box, it closes the connection before it responds.
    const message = await socket.json(({ id }) => id === '2').catch(() => 'closed');
    if (message !== 'closed') expect(message).toMatchObject({ type: 'problem', problem: { status: 410 } });
    expect(await socket.closed).toEqual({ code: 1001, reason: 'The box was deleted.' });
    for (const { closed } of revoked.sockets)
      expect(await closed).toEqual({ code: 1008, reason: 'The key is no longer valid.' });
    await expect(revoked.stream.text()).rejects.toThrow('terminated');
  });

  test('an idle connection leaves its box at rest, and an operation on it resumes the box', async () => {
    const own = await gateway.createBox();
    const socket = await open(own.id);
    await gateway.client.boxes.pause(own.id);
    // Once the sweep has checked these later connections, it has also checked this one.
    for (const { closed } of (await openRevoked(gateway)).sockets) await closed;
    expect((await gateway.client.boxes.read(own.id)).state).toBe('paused');
    socket.sendJson({ id: '1', op: 'execute', code: 'print(6 * 7)' });
    expect(streamOf(await eventsOf(socket, '1'), 'stdout')).toBe('42\n');
    socket.ws.close();
    await gateway.client.boxes.delete(own.id);
  });
});

/** Opens sockets and a stream of another key, one socket by a ticket, in a box that stays, and revokes the key. */
const openRevoked = async (gateway: GatewayProcess) => {
  const { key, id, hash } = makeKey();
  const store = await openStore(await databaseUrl(gateway.dataDir), () => {});
  const { tenantId } = (await store.keys.find(keyId(gateway.key) ?? '')) ?? { tenantId: '' };
  await store.keys.add({ id, hash, tenantId, name: 'second' });
  const { id: box } = await gateway.createBox();
  const path = `/v1/boxes/${box}/ws`;
  const headers = { authorization: `Bearer ${key}` };
  const { ticket } = (await gateway.post<Ticket>(`/v1/boxes/${box}/tickets`, {}, headers)).body;
  const sockets = [await connect(gateway, path, headers), await connect(gateway, `${path}?ticket=${ticket}`, {})];
  const stream = await gateway.call(`/v1/boxes/${box}/files:watch`, { headers });
  await store.keys.revoke(id);
  await store.close();
  return { sockets, stream };
};

/** Resolves with the events of one operation up to `done`. */
const eventsOf = async (socket: TestSocket, id: string): Promise<ExecutionEvent[]> => {
  const isMine = (message: Record<string, unknown>) => message.id === id && message.type === 'event';
  await socket.json((message) => isMine(message) && (message.event as ExecutionEvent).type === 'done', 60_000);
  return socket.messages.flatMap((message) =>
    'json' in message && isMine(message.json) ? [message.json.event as ExecutionEvent] : [],
  );
};
