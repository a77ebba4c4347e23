import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { Readable } from 'node:stream';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { WebSocket } from 'ws';
import type { Box, Problem } from '#contract';
import { anyDriver, eventually, type GatewayProcess, memoryOf, startGatewayProcess } from './harness.ts';
import { rawRequest, startServer, uploadServers } from './servers.ts';

const megabyte = 1024 * 1024;

describe.each(anyDriver)('traffic to ports on the %s driver', (driver) => {
  let gateway: GatewayProcess;
  let box: Box;
  beforeAll(async () => {
    gateway = await startGatewayProcess(driver, {
      CODEBOX_PORTS_DOMAIN: 'Apps.Example.com',
      CODEBOX_SWEEP_SECONDS: '1',
    });
    box = await gateway.createBox({ network: 'none' });
    await uploadServers(gateway, box.id, 'reflect.py', 'counter.mjs', 'sockets.py');
    await startServer(gateway, box.id, 'python3 reflect.py 5000', 5000);
    await startServer(gateway, box.id, 'python3 reflect.py 5001 ::', 5001);
    await startServer(gateway, box.id, 'node counter.mjs 5002', 5002);
    await startServer(gateway, box.id, 'python3 sockets.py 6000', 6000);
  });
  afterAll(() => gateway?.dispose());

  const at = (path: string, port = 5000) => `/v1/boxes/${box.id}/ports/${port}${path}`;
  const socketTo = (path: string, port: number, headers = {}) =>
    new WebSocket(gateway.url.replace('http', 'ws') + at(path, port), {
      headers: { authorization: `Bearer ${gateway.key}`, ...headers },
    });

  test('100 MB pass in each direction unchanged and in bounded memory', async () => {
    // A first transfer: what V8 takes once does not count.
    await (await gateway.call(at(`/bytes/${10 * megabyte}`))).arrayBuffer();
    const before = await memoryOf(gateway.pid());
    const total = 100 * megabyte;
    const blocks = function* () {
      for (let sent = 0; sent < total; sent += megabyte) yield new Uint8Array(megabyte).fill(sent / megabyte);
    };
    const body = Readable.toWeb(Readable.from(blocks())) as ReadableStream;
    const up = await gateway.call(at('/', 5002), { method: 'PUT', body, duplex: 'half' } as RequestInit);
    expect(await up.json()).toMatchObject({ bytes: total });
    const down = await gateway.call(at(`/bytes/${total}`));
    expect(down.headers.get('content-length')).toBe(String(total));
    const hash = createHash('sha256');
    for await (const chunk of down.body ?? []) hash.update(chunk as Uint8Array);
    const expected = createHash('sha256');
    const block = Buffer.from(Array.from({ length: 256 }, (_, byte) => byte));
    const all = Buffer.alloc(megabyte, block);
    for (let sent = 0; sent < total; sent += megabyte) expected.update(all);
    expect(hash.digest('hex')).toBe(expected.digest('hex'));
    const after = await memoryOf(gateway.pid());
    expect((after.peak - before.now) / megabyte).toBeLessThan(64);
  });

  test('server-sent events arrive one by one as they are sent', async () => {
    const response = await gateway.call(at('/events'));
    expect(response.headers.get('content-type')).toBe('text/event-stream');
    const arrived: string[] = [];
    for await (const chunk of response.body ?? []) arrived.push(Buffer.from(chunk as Uint8Array).toString());
    expect(arrived.map((event) => event.slice(0, 7))).toEqual(['data: 0', 'data: 1', 'data: 2']);
  });

  test('a chunked body and a body sent with Expect: 100-continue arrive complete', async () => {
    const text = 'x'.repeat(200_000);
    const chunks = { method: 'POST', headers: { 'transfer-encoding': 'chunked' } };
    expect((await rawRequest(gateway, at('/echo'), chunks, text)).text).toBe(text);
    const expecting = { method: 'POST', headers: { expect: '100-continue' } };
    expect((await rawRequest(gateway, at('/echo'), expecting, text)).text).toBe(text);
  });

  test('each of 200 concurrent requests gets the response of its own server', async () => {
    const requests = Array.from({ length: 200 }, (_, i) => ({ port: [5000, 5001, 5002][i % 3] ?? 0, path: `/n/${i}` }));
    const paths: (string | undefined)[] = [];
    const turn = async (index: number): Promise<void> => {
      for (let i = index; i < requests.length; i += 40) {
        const { port, path } = requests[i] ?? { port: 0, path: '' };
        const { path: seen, url } = (await (await gateway.call(at(path, port))).json()) as Record<string, string>;
        paths[i] = seen ?? url;
      }
    };
    await Promise.all(Array.from({ length: 40 }, (_, i) => turn(i)));
    expect(paths).toEqual(requests.map(({ path }) => path));
  });

  test('idempotent requests share a connection, and others get a new one', async () => {
    const connection = async (method: string) =>
      ((await (await gateway.call(at('/', 5002), { method })).json()) as { connection: number }).connection;
    // An idle connection is kept for one second only, which may pass between two requests on a busy machine.
    const shared = new Set<number>();
    for (let n = 0; n < 6; n++) shared.add(await connection('GET'));
    expect(shared.size).toBeLessThan(6);
    const own = [await connection('POST'), await connection('POST')];
    expect(new Set([...shared, ...own]).size).toBe(shared.size + 2);
  });

  test('a box accepts 64 concurrent connections; one more is a 429 until one has ended', async () => {
    const crowd = await gateway.createBox({ network: 'none' });
    await uploadServers(gateway, crowd.id, 'sockets.py');
    await startServer(gateway, crowd.id, 'python3 sockets.py 6000', 6000);
    const path = `/v1/boxes/${crowd.id}/ports/6000/`;
    const sockets = await Promise.all(
      Array.from({ length: 64 }, async () => {
        const url = `${gateway.url.replace('http', 'ws')}${path}echo`;
        const socket = new WebSocket(url, { headers: { authorization: `Bearer ${gateway.key}` } });
        await once(socket, 'message', { signal: AbortSignal.timeout(60_000) });
        return socket;
      }),
    );
    const refused = await gateway.call(path);
    expect([refused.status, refused.headers.get('retry-after')]).toEqual([429, '1']);
    expect(((await refused.json()) as Problem).code).toBe('too_many_requests');
    sockets[0]?.terminate();
    await eventually(async () => (await gateway.call(path)).status === 200);
    const ends = sockets.slice(1).map((socket) => once(socket, 'close', { signal: AbortSignal.timeout(60_000) }));
    await gateway.call(`/v1/boxes/${crowd.id}`, { method: 'DELETE' });
    await Promise.all(ends);
    expect((await gateway.call(path)).status).toBe(410);
  });

  test('an open WebSocket keeps its box from being idle', async () => {
    const idle = await gateway.createBox({ network: 'none', idleSeconds: 10 });
    await uploadServers(gateway, idle.id, 'sockets.py');
    await startServer(gateway, idle.id, 'python3 sockets.py 6000', 6000);
    const url = `${gateway.url.replace('http', 'ws')}/v1/boxes/${idle.id}/ports/6000/echo`;
    const socket = new WebSocket(url, { headers: { authorization: `Bearer ${gateway.key}` } });
    await once(socket, 'message', { signal: AbortSignal.timeout(60_000) });
    const active = async () => Date.parse((await gateway.get<Box>(`/v1/boxes/${idle.id}`)).body.lastActiveAt);
    const before = await active();
    await eventually(async () => (await active()) > before + 1500, 30_000);
    socket.close();
  });

  test('each port has its own host under the ports domain, without the restrictions of a shared origin', async () => {
    const host = `5000-${box.id}.apps.example.com`;
    const own = { headers: { host } };
    const { response, text } = await rawRequest(gateway, '/../v1/boxes?x=1', own);
    const { path, headers } = JSON.parse(text);
    expect([response.statusCode, path]).toEqual([200, '/../v1/boxes?x=1']);
    expect(headers).toContainEqual(['host', host]);
    expect(headers.map(([name]: string[]) => name)).not.toContain('x-forwarded-prefix');
    expect(response.headers['content-security-policy']).toBeUndefined();
    const upper = await rawRequest(gateway, '/', { headers: { host: `5000-${box.id}.APPS.example.com:8080` } });
    expect(upper.response.statusCode).toBe(200);
    const sent = JSON.stringify([
      ['Set-Cookie', 'a=1; Domain=apps.example.com; Path=/x'],
      ['Service-Worker-Allowed', '/'],
    ]);
    const set = await rawRequest(gateway, '/headers', { ...own, method: 'POST' }, sent);
    expect([set.response.headers['set-cookie'], set.response.headers['service-worker-allowed']]).toEqual([
      ['a=1; Path=/x'],
      '/',
    ]);
    for (const other of ['apps.example.com', '127.0.0.1', 'api.apps.example.com', `5000-${box.id}.evil.example`])
      expect((await rawRequest(gateway, '/healthz', { headers: { host: other } })).response.statusCode).toBe(200);
    expect((await rawRequest(gateway, '/', { headers: { host, authorization: '' } })).response.statusCode).toBe(401);
  });

  test('on the host of a port a ticket becomes a cookie of that host, which is valid nowhere else', async () => {
    const { body } = await gateway.post<{ ticket: string }>(`/v1/boxes/${box.id}/tickets`, {});
    const host = `5000-${box.id}.apps.example.com`;
    const headers = { host, authorization: '', 'x-forwarded-proto': 'https' };
    const { response } = await rawRequest(gateway, `//evil.example/?ticket=${body.ticket}`, { headers });
    expect([response.statusCode, response.headers.location]).toEqual([303, `//${host}//evil.example/`]);
    const cookie = response.headers['set-cookie']?.[0] ?? '';
    expect(cookie).toMatch(/^__Host-codebox-port=[\w-]{43}; Path=\/; Max-Age=3600; HttpOnly; SameSite=Lax; Secure$/);
    const session = { host, authorization: '', cookie: cookie.split(';')[0] ?? '' };
    const again = { headers: { ...session, 'x-forwarded-proto': 'https' } };
    const { headers: seen } = JSON.parse((await rawRequest(gateway, '/', again)).text);
    expect(seen).toContainEqual(['x-forwarded-proto', 'https']);
    const other = { ...session, host: `5001-${box.id}.apps.example.com` };
    expect((await rawRequest(gateway, '/', { headers: other })).response.statusCode).toBe(401);
  });

  test('a stopping gateway closes WebSockets with 1012, and the server can be reached through the next gateway', async () => {
    const socket = socketTo('/echo', 6000);
    await once(socket, 'message', { signal: AbortSignal.timeout(60_000) });
    const closed = once(socket, 'close', { signal: AbortSignal.timeout(60_000) });
    const stopped = gateway.stop();
    const [code, reason] = await closed;
    expect([code, String(reason)]).toEqual([1012, 'The gateway is stopping; connect again.']);
    await stopped;
    await gateway.restart();
    expect(await (await gateway.call(at('/', 6000))).text()).toBe('home');
  });
});
