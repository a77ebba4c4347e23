import { request as sendRequest } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import type { Box, Terminal, Ticket } from '#contract';
import { anyDriver, drivers, eventually, type GatewayProcess, memoryOf, startGatewayProcess } from './harness.ts';
import { connect, refusalOf } from './websocket.ts';

describe.each(drivers)('terminals on the %s driver', (driver) => {
  // These tests do not depend on the driver.
  const testOnce = anyDriver.includes(driver) ? test : () => {};
  let gateway: GatewayProcess;
  let box: Box;
  beforeAll(async () => {
    gateway = await startGatewayProcess(driver, { CODEBOX_SWEEP_SECONDS: '1' });
    box = await gateway.createBox();
  });
  afterAll(() => gateway?.dispose());

  const open = (query = '', id = box.id) => connect(gateway, `/v1/boxes/${id}/terminal${query}`);
  const list = async () => (await gateway.get<{ items: Terminal[] }>(`/v1/boxes/${box.id}/terminals`)).body.items;
  const end = (id: unknown) => gateway.call(`/v1/boxes/${box.id}/terminals/${id}`, { method: 'DELETE' });

  afterEach(async () => {
    for (const { id } of await list()) await end(id);
  });

  test('a terminal is a shell in the working folder, with the programs of commands and the requested size', async () => {
    await gateway.call(`/v1/boxes/${box.id}/files/here.txt`, { method: 'PUT', body: 'found' });
    const socket = await open('?cols=100&rows=30');
    const ready = await socket.json(({ type }) => type === 'ready');
    expect(ready).toMatchObject({ cols: 100, rows: 30, terminal: expect.stringMatching(/^term-[a-z2-7]{26}$/) });
    socket.sendBytes('cat here.txt; echo; stty size; tty; python3 -c "import pandas; print(6 * 7, pandas.__name__)"\r');
    const text = await socket.text('42 pandas');
    expect(text).toContain('found\r\n30 100\r\n/dev/pts/');
    socket.sendJson({ type: 'resize', cols: 120, rows: 40 });
    socket.sendBytes('stty size\r');
    await socket.text('40 120');
    socket.sendBytes('exit 3\r');
    expect(await socket.json(({ type }) => type === 'exit')).toEqual({ type: 'exit', exitCode: 3, signal: null });
    expect(await socket.closed).toEqual({ code: 1000, reason: 'The shell has ended.' });
    expect(await list()).toEqual([]);
  });

  test('bytes pass unchanged, also characters split over messages', async () => {
    const socket = await open();
    socket.sendBytes("stty -echo; PS1=; echo re''ady; cat; printf '\\377\\200|'\r");
    await socket.text('ready');
    const text = Buffer.from('äöü世界😀\n');
    for (const byte of text) socket.ws.send(Buffer.from([byte]));
    await socket.text('äöü世界😀\r\n');
    socket.sendBytes('\x04');
    await eventually(async () => socket.bytes().includes(Buffer.from([0xff, 0x80, 0x7c])));
    socket.ws.terminate();
  });

  test('a terminal continues without clients, replays its screen on reconnect, and can be shared', async () => {
    const first = await open();
    const { terminal } = await first.json(({ type }) => type === 'ready');
    first.sendBytes('x=kept; (sleep 1; echo la""ter) &\r');
    await first.text('sleep 1');
    first.ws.terminate();
    await eventually(async () => (await list()).find(({ id, clients }) => id === terminal && clients === 0));
    const second = await open(`?terminal=${terminal}`);
    const third = await open(`?terminal=${terminal}&cols=90&rows=20`);
    expect(await second.json(({ type }) => type === 'ready')).toMatchObject({ terminal, cols: 80, rows: 24 });
    const ready = await third.json(({ type }) => type === 'ready');
    expect(ready).toMatchObject({ terminal, cols: 90, rows: 20 });
    await third.text('sleep 1');
    expect(third.bytes().length).toBeGreaterThanOrEqual(Number(ready.replayedBytes));
    await second.text('later');
    second.sendBytes('echo "$x by se""cond"\r');
    await third.text('kept by second');
    expect(await list()).toMatchObject([{ id: terminal, box: box.id, clients: 2, cols: 90, rows: 20 }]);
    expect((await end(terminal)).status).toBe(204);
    expect(await second.json(({ type }) => type === 'exit')).toMatchObject({ signal: 'SIGHUP' });
    await third.closed;
    expect((await end(terminal)).status).toBe(404);
  });

  testOnce('an invalid connection is refused before the upgrade, with a problem', async () => {
    const path = `/v1/boxes/${box.id}/terminal`;
    expect(await refusalOf(gateway, path, {})).toMatchObject({ status: 401, problem: { code: 'unauthorized' } });
    const unknown = await refusalOf(gateway, `${path}?terminal=term-${'a'.repeat(26)}`);
    expect(unknown).toMatchObject({ status: 404, type: 'application/problem+json', problem: { code: 'not_found' } });
    expect(await refusalOf(gateway, `${path}?terminal=../x`)).toMatchObject({ status: 404 });
    expect(await refusalOf(gateway, '/v1/boxes/box-none/terminal')).toMatchObject({ status: 404 });
    const other = { authorization: `Bearer ${await gateway.addTenant()}` };
    expect(await refusalOf(gateway, path, other)).toMatchObject({ status: 404 });
    for (const [query, pointer] of [
      ['cols=0&rows=1', '/query/cols'],
      ['cols=80', '/query/rows'],
      ['cols=1e9&rows=2', '/query/cols'],
      ['size=1', '/query/size'],
      ['cwd=nowhere', '/cwd'],
      [`terminal=term-${'a'.repeat(26)}&cwd=x`, '/query/cwd'],
    ] as const) {
      const { status, problem } = await refusalOf(gateway, `${path}?${query}`);
      expect([query, status, problem.errors?.[0]?.pointer]).toEqual([query, 400, pointer]);
    }
    const plain = await gateway.call(path);
    expect([plain.status, plain.headers.get('upgrade')]).toEqual([426, 'websocket']);
    expect(await list()).toEqual([]);
  });

  testOnce('other protocols and broken handshakes get a response and do not hang', async () => {
    const path = `/v1/boxes/${box.id}/terminal`;
    const h2c = await request(gateway, path, { upgrade: 'h2c', connection: 'Upgrade, HTTP2-Settings' });
    expect(h2c).toBe(426);
    const broken = { upgrade: 'websocket', connection: 'Upgrade', 'sec-websocket-version': '13' };
    expect(await request(gateway, path, { ...broken, 'sec-websocket-key': 'x' })).toBe(400);
    expect(await request(gateway, '/healthz', broken)).toBe(200);
    expect(await request(gateway, `/v1/boxes/${box.id}`, broken)).toBe(200);
  });

  testOnce('a ticket is valid for one connection, to its own box only', async () => {
    const path = `/v1/boxes/${box.id}/terminal`;
    const make = async () => (await gateway.post<Ticket>(`/v1/boxes/${box.id}/tickets`, {})).body.ticket;
    const ticket = await make();
    const [first, second] = await Promise.allSettled([
      connect(gateway, `${path}?ticket=${ticket}`, { origin: 'https://elsewhere.example' }),
      connect(gateway, `${path}?ticket=${ticket}`, {}),
    ]);
    expect([first.status, second.status].sort()).toEqual(['fulfilled', 'rejected']);
    expect(await refusalOf(gateway, `${path}?ticket=${ticket}`, {})).toMatchObject({ status: 401 });
    for (const result of [first, second]) {
      if (result.status === 'fulfilled') result.value.ws.terminate();
      else expect(result.reason).toMatchObject({ status: 401, problem: { code: 'unauthorized' } });
    }
    const elsewhere = await gateway.createBox();
    const another = await make();
    const foreign = await refusalOf(gateway, `/v1/boxes/${elsewhere.id}/terminal?ticket=${another}`, {});
    expect(foreign).toMatchObject({ status: 401 });
    (await connect(gateway, `${path}?ticket=${another}`, {})).ws.terminate();
    expect(gateway.output()).not.toContain('tkt_');
    await gateway.call(`/v1/boxes/${elsewhere.id}`, { method: 'DELETE' });
  });

  test('a flood of output for a slow reader costs the gateway no memory, and Ctrl+C still stops it', async () => {
    const socket = await open();
    await socket.json(({ type }) => type === 'ready');
    const { now: before } = await memoryOf(gateway.pid());
    socket.sendBytes(`yes ${'y'.repeat(500)}\r`);
    await socket.text('yyyy\r\nyyyy');
    socket.ws.pause();
    await sleep(3000);
    const { now: after } = await memoryOf(gateway.pid());
    expect(after - before).toBeLessThan(96 * 1024 * 1024);
    expect((await gateway.run(box.id, '1 + 1')).text).toBe('2');
    socket.ws.resume();
    socket.sendBytes('\x03echo sto""pped\r');
    await socket.text('stopped');
    socket.ws.terminate();
  });

  testOnce('an invalid frame gets an error, and an oversized one ends the connection', async () => {
    const socket = await open();
    await socket.json(({ type }) => type === 'ready');
    socket.ws.send('{"type": "resize", "cols": 0, "rows": 5, "x": 1}');
    const { errors } = await socket.json(({ type }) => type === 'error');
    expect((errors as { pointer: string }[]).map(({ pointer }) => pointer).sort()).toEqual(['/cols', '/x']);
    socket.ws.send('nonsense');
    socket.sendBytes('echo al""ive\r');
    await socket.text('alive');
    socket.ws.send(Buffer.alloc(2 * 1024 * 1024));
    expect((await socket.closed).code).toBe(1009);
  });

  testOnce('a box has at most sixteen terminals', async () => {
    const sockets = await Promise.all(Array.from({ length: 16 }, () => open()));
    const refusal = await refusalOf(gateway, `/v1/boxes/${box.id}/terminal`);
    expect(refusal).toMatchObject({ status: 429, problem: { code: 'too_many_requests' } });
    for (const socket of sockets) socket.sendBytes('exit\r');
    await Promise.all(sockets.map((socket) => socket.closed));
  });

  test('an open terminal keeps its box active, and is closed with the reason when the box ends', async () => {
    const stateOf = async ({ id }: Box) => (await gateway.get<Box>(`/v1/boxes/${id}`)).body.state;
    const [idle, unheld] = await Promise.all([gateway.createBox(), gateway.createBox()]);
    const socket = await open('', idle.id);
    await socket.json(({ type }) => type === 'ready');
    for (const { id } of [idle, unheld]) await gateway.client.boxes.update(id, { idleSeconds: 1 });
    await eventually(async () => (await stateOf(unheld)) === 'deleted');
    expect(await stateOf(idle)).toBe('ready');
    await gateway.call(`/v1/boxes/${idle.id}`, { method: 'DELETE' });
    expect(await socket.closed).toEqual({ code: 1001, reason: 'The box was deleted.' });
    expect(await socket.json(({ type }) => type === 'error')).toMatchObject({ code: 'gone' });
  });

  testOnce('a stopping gateway closes terminals with 1012, and the next gateway serves them again', async () => {
    const socket = await open();
    const { terminal } = await socket.json(({ type }) => type === 'ready');
    socket.sendBytes('still=here\r');
    await socket.text('still=here');
    const stopped = gateway.stop();
    expect(await socket.closed).toEqual({ code: 1012, reason: 'The gateway is stopping; connect again.' });
    await stopped;
    await gateway.restart();
    const again = await open(`?terminal=${terminal}`);
    again.sendBytes('echo is $still\r');
    await again.text('is here');
    again.ws.terminate();
  });
});

/** Resolves with the status of a request with headers that `fetch` would not send. */
const request = (gateway: GatewayProcess, path: string, headers: Record<string, string>): Promise<number> => {
  return new Promise((done, failed) => {
    const sent = sendRequest(`${gateway.url}${path}`, {
      headers: { authorization: `Bearer ${gateway.key}`, ...headers },
    });
    sent.setTimeout(10_000, () => sent.destroy(new Error('no response')));
    sent.on('response', (response) => {
      response.resume();
      done(response.statusCode ?? 0);
    });
    sent.on('error', failed);
    sent.end();
  });
};
