import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import type { IncomingMessage, RequestOptions } from 'node:http';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type ClientOptions, WebSocket } from 'ws';
import type { Box, Problem } from '#contract';
import { anyDriver, drivers, type RunningGateway, startGateway } from './harness.ts';
import { rawRequest, startServer, uploadServers } from './servers.ts';

const megabyte = 1024 * 1024;
const sandbox = 'sandbox allow-scripts allow-forms allow-popups allow-modals allow-downloads';

/** A request as `reflect.py` received it. */
interface ReflectedRequest {
  method: string;
  path: string;
  headers: [string, string][];
  body: string | number;
}

describe.each(drivers)('ports on the %s driver', (driver) => {
  // The driver provides the connection; what passes through it is up to the gateway and the box.
  const testOnce = anyDriver.includes(driver) ? test : () => {};
  let gateway: RunningGateway;
  let box: Box;
  beforeAll(async () => {
    gateway = await startGateway(driver);
    box = await gateway.createBox({ network: 'none' });
    await uploadServers(gateway, box.id, 'reflect.py', 'sockets.py');
    await startServer(gateway, box.id, 'python3 reflect.py 5000', 5000);
    await startServer(gateway, box.id, 'python3 sockets.py 6000', 6000);
  });
  afterAll(() => gateway?.dispose());

  const at = (path = '', port: number | string = 5000) => `/v1/boxes/${box.id}/ports/${port}${path}`;
  const call = (path: string, init: RequestInit = {}, port?: number) => gateway.call(at(path, port), init);
  const reflected = async (path: string, options: RequestOptions = {}, body?: string): Promise<ReflectedRequest> =>
    JSON.parse((await raw(at(path), options, body)).text);
  const problemOf = async (response: Response) => (await response.json()) as Problem;

  const raw = (path: string, options?: RequestOptions, body?: string) => rawRequest(gateway, path, options, body);

  test('a server in a box without a network can be reached with every method', async () => {
    for (const method of ['GET', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS', 'PROPFIND']) {
      const body = method === 'GET' ? undefined : `body of ${method}`;
      const received = await reflected('/some/path?x=1&x=2', { method }, body);
      expect(received).toMatchObject({ method, path: '/some/path?x=1&x=2', body: body ?? '' });
    }
    const reach = 'import socket; s = socket.socket(); s.settimeout(3); s.connect_ex(("1.1.1.1", 53))';
    expect((await gateway.run(box.id, reach)).text).not.toBe('0');
  });

  testOnce('HEAD, 204 and 304 have no body, and the connection stays usable', async () => {
    const head = await call('/', { method: 'HEAD' });
    expect([head.status, Number(head.headers.get('content-length')) > 0, await head.text()]).toEqual([200, true, '']);
    for (const status of [204, 304, 404, 500]) {
      const response = await call(`/status/${status}`);
      expect([response.status, response.headers.get('etag'), await response.text()]).toEqual([status, '"x"', '']);
    }
  });

  testOnce('paths are passed byte for byte: dots, encoded slashes, double slashes and raw bytes', async () => {
    const paths = ['/../../files', '/a/%2e%2e/b', '//double//', '/%2F%00%C3%BC', '/?a=%26&b', '/a;b=c', '/./x/.'];
    for (const path of paths) expect((await reflected(path)).path).toBe(path);
    expect((await reflected('')).path).toBe('/');
    expect((await reflected('?q=1')).path).toBe('/?q=1');
  });

  testOnce('a redirect of a server to its own root is rewritten below its port', async () => {
    const host = new URL(gateway.url).host;
    for (const [to, location] of [
      ['/login?a=1', at('/login?a=1')],
      [`http://${host}/x`, at('/x')],
      ['http://127.0.0.1:5000/x', at('/x')],
      [at('/login'), at('/login')],
      ['sub', 'sub'],
      ['https://example.org/x', 'https://example.org/x'],
    ]) {
      const response = await call('/headers', { method: 'POST', body: JSON.stringify([['Location', to]]) });
      expect(response.headers.get('location')).toBe(location);
    }
  });

  test('a port without a listener is a 502 problem that names the port', async () => {
    const response = await call('/', {}, 5999);
    expect([response.status, response.headers.get('content-type')]).toEqual([502, 'application/problem+json']);
    expect(await problemOf(response)).toMatchObject({
      code: 'bad_gateway',
      detail: 'Nothing listens on port 5999 in this box.',
    });
  });

  testOnce('an invalid port is a 400, the box of another tenant a 404, a missing key a 401', async () => {
    for (const port of ['0', '65536', 'http', '-1', '+80', '5e3', '%35']) {
      const response = await gateway.call(at('/', port));
      expect([port, response.status]).toEqual([port, 400]);
      expect((await problemOf(response)).errors?.[0]?.pointer).toBe('/path/port');
    }
    const stranger = await gateway.addTenant();
    const theirs = await call('/', { headers: { authorization: `Bearer ${stranger}` } });
    const missing = await gateway.call('/v1/boxes/box-aaaa/ports/5000/');
    expect([theirs.status, missing.status]).toEqual([404, 404]);
    expect((await problemOf(theirs)).detail).toBe((await problemOf(missing)).detail);
    expect((await fetch(gateway.url + at('/'))).status).toBe(401);
  });

  testOnce('no credentials of CodeBox reach the server, and forwarding headers cannot be forged', async () => {
    const given = {
      'X-API-Key': gateway.key,
      Cookie: `a=1; codebox-port=x; __Host-codebox-port=y; b=2`,
      'X-Forwarded-For': '6.6.6.6',
      'X-Forwarded-Host': 'evil.example',
      'X-Forwarded-Proto': 'gopher',
      'X-Forwarded-Prefix': '/evil',
      Forwarded: 'for=6.6.6.6',
      'X-Real-IP': '6.6.6.6',
      Connection: 'close, X-Dropped',
      'X-Dropped': '1',
      'Keep-Alive': 'timeout=5',
      'Proxy-Authorization': 'Basic eA==',
      TE: 'trailers',
      Upgrade: 'h2c',
      'X-Kept': 'as it is',
      Expect: '100-continue',
    };
    const { headers } = await reflected('/', { method: 'POST', headers: given }, 'body');
    const seen = (name: string) => headers.filter(([key]) => key === name).map(([, value]) => value);
    expect(JSON.stringify(headers)).not.toMatch(/cbx_|evil|6\.6\.6|gopher/);
    const gone = ['authorization', 'x-api-key', 'forwarded', 'x-real-ip', 'x-dropped', 'keep-alive', 'te', 'upgrade'];
    for (const name of [...gone, 'proxy-authorization', 'expect']) expect([name, seen(name)]).toEqual([name, []]);
    expect(seen('cookie')).toEqual(['a=1; b=2']);
    expect(seen('x-kept')).toEqual(['as it is']);
    const { host } = new URL(gateway.url);
    const forwarding = ['host', 'x-forwarded-host', 'x-forwarded-for', 'x-forwarded-proto', 'x-forwarded-prefix'].map(
      seen,
    );
    expect(forwarding).toEqual([[host], [host], ['127.0.0.1'], ['http'], [at()]]);
    expect(seen('content-length')).toEqual(['4']);
  });

  testOnce('a page is sandboxed, and its headers and cookies do not affect the origin of the gateway', async () => {
    const sent = [
      ['Content-Security-Policy', "default-src 'self'"],
      ['Service-Worker-Allowed', '/'],
      ['Clear-Site-Data', '"*"'],
      ['Strict-Transport-Security', 'max-age=1'],
      ['Alt-Svc', 'h3=":1"'],
      ['X-Request-Id', 'forged'],
      ['Set-Cookie', 'a=1; Domain=example.com; Path=/; HttpOnly'],
      ['Set-Cookie', 'b=2; path=/admin'],
      ['Set-Cookie', 'c=3'],
      ['Set-Cookie', `d=4; Path=${at('/deep')}`],
      ['Set-Cookie', 'e=5; PATH=/x; path = relative; DOMAIN'],
      ['Set-Cookie', 'codebox-port=forged; Path=/'],
      ['Set-Cookie', '=codebox-port=forged'],
      ['X-Own', 'one'],
      ['X-Own', 'two'],
    ];
    const { response } = await raw(at('/headers'), { method: 'POST' }, JSON.stringify(sent));
    const pairs = response.rawHeaders.flatMap((name, i, all) => (i % 2 ? [] : [[name.toLowerCase(), all[i + 1]]]));
    const values = (name: string) => pairs.filter(([key]) => key === name).map(([, value]) => value);
    expect(values('content-security-policy')).toEqual(["default-src 'self'", sandbox]);
    for (const name of ['service-worker-allowed', 'clear-site-data', 'strict-transport-security', 'alt-svc'])
      expect([name, values(name)]).toEqual([name, []]);
    expect(values('set-cookie')).toEqual([
      `a=1; HttpOnly; Path=${at('/')}`,
      `b=2; Path=${at('/admin')}`,
      `c=3; Path=${at('/')}`,
      `d=4; Path=${at('/deep')}`,
      `e=5; Path=${at('/')}`,
    ]);
    expect(values('x-own')).toEqual(['one', 'two']);
    expect(values('x-request-id')).not.toEqual(['forged']);
    expect(values('x-request-id')).toHaveLength(1);
  });

  testOnce('a browser that requests a port without the trailing slash is redirected to the path with it', async () => {
    const headers = { accept: 'text/html,*/*', authorization: '' };
    const { response } = await raw(at('?a=1'), { headers });
    expect([response.statusCode, response.headers.location]).toEqual([308, at('/?a=1')]);
    const within = await rawRequest(gateway, at(`/login?next=${at('')}`), { headers: { accept: 'text/html' } });
    expect([within.response.statusCode, JSON.parse(within.text).path]).toEqual([200, `/login?next=${at('')}`]);
  });

  const ticket = async () => (await gateway.post<{ ticket: string }>(`/v1/boxes/${box.id}/tickets`, {})).body.ticket;
  const socketTo = (path: string, protocols: string[] = [], options: ClientOptions = {}) =>
    new WebSocket(gateway.url.replace('http', 'ws') + at(path, 6000), protocols, {
      headers: { authorization: `Bearer ${gateway.key}`, ...options.headers },
      ...options,
    });
  const message = async (socket: WebSocket): Promise<[Buffer, boolean]> =>
    (await once(socket, 'message', { signal: AbortSignal.timeout(60_000) })) as [Buffer, boolean];
  const closed = async (socket: WebSocket): Promise<[number, string]> => {
    const [code, reason] = await once(socket, 'close', { signal: AbortSignal.timeout(60_000) });
    return [code, String(reason)];
  };

  test('a WebSocket carries text, binary messages, its subprotocol and its compression', async () => {
    const socket = socketTo('/echo?x=1', ['other', 'chat'], { perMessageDeflate: true });
    const [greeting] = await message(socket);
    expect(JSON.parse(String(greeting))).toMatchObject({ path: '/echo?x=1', authorization: null, key: null });
    expect(socket.protocol).toBe('chat');
    expect(socket.extensions).toContain('permessage-deflate');
    socket.send('hello');
    expect(await message(socket)).toEqual([Buffer.from('hello'), false]);
    const big = randomBytes(3 * megabyte);
    socket.send(big);
    const [echoed, isBinary] = await message(socket);
    expect([isBinary, big.equals(echoed)]).toEqual([true, true]);
    socket.close(4001);
    expect(await closed(socket)).toEqual([4001, '']);
  });

  testOnce('a WebSocket client gets the close code or the refusal of the server', async () => {
    const socket = socketTo('/echo');
    await message(socket);
    socket.send('close');
    expect(await closed(socket)).toEqual([4321, 'because']);
    const refused = socketTo('/refused');
    const [, response] = (await once(refused, 'unexpected-response')) as [unknown, IncomingMessage];
    expect([response.statusCode, response.headers['content-security-policy']]).toEqual([403, sandbox]);
    refused.on('error', () => {}).terminate();
    const nobody = socketTo('/echo', [], { headers: { authorization: '' } });
    const [, unauthorized] = (await once(nobody, 'unexpected-response')) as [unknown, IncomingMessage];
    expect(unauthorized.statusCode).toBe(401);
    nobody.on('error', () => {}).terminate();
  });

  testOnce('a ticket opens one WebSocket, and is not passed to the server', async () => {
    const path = `/echo?a=1&ticket=${await ticket()}&b=2`;
    const socket = socketTo(path, [], { headers: {} });
    expect(JSON.parse(String((await message(socket))[0])).path).toBe('/echo?a=1&b=2');
    socket.close();
    const again = socketTo(path, [], { headers: {} });
    const [, response] = (await once(again, 'unexpected-response')) as [unknown, IncomingMessage];
    expect(response.statusCode).toBe(401);
    again.on('error', () => {}).terminate();
  });

  testOnce('a ticket in the URL of a page becomes a session cookie for that port only', async () => {
    const opened = await raw(at(`//x/../y?a=%20&ticket=${await ticket()}&b`), { headers: { authorization: '' } });
    const { statusCode, headers } = opened.response;
    expect([statusCode, headers.location]).toEqual([303, at('//x/../y?a=%20&b')]);
    const [cookie = ''] = headers['set-cookie'] ?? [];
    expect(cookie).toMatch(/^codebox-port=[\w-]{43}; Path=[^;]*\/ports\/5000\/; Max-Age=3600; HttpOnly; SameSite=Lax$/);
    const session = { authorization: '', cookie: `mine=1; ${cookie.split(';')[0]}; theirs=2` };
    const received = await reflected('/page', { headers: session });
    expect(received.headers.filter(([name]) => name === 'cookie')).toEqual([['cookie', 'mine=1; theirs=2']]);
    const elsewhere = [at('/', 6000), `/v1/boxes/${box.id}`, `/v1/boxes/${box.id}/files/`];
    for (const path of elsewhere) expect((await raw(path, { headers: session })).response.statusCode).toBe(401);
  });

  testOnce('a page of another origin cannot use the session of a browser', async () => {
    const opened = await raw(at(`/?ticket=${await ticket()}`), { headers: { authorization: '' } });
    const cookie = opened.response.headers['set-cookie']?.[0]?.split(';')[0] ?? '';
    const status = async (headers: Record<string, string>, method = 'GET') =>
      (await raw(at('/'), { method, headers: { authorization: '', cookie, ...headers } })).response.statusCode;
    const host = new URL(gateway.url).host;
    expect(await status({ 'sec-fetch-site': 'same-origin' })).toBe(200);
    expect(await status({ 'sec-fetch-site': 'cross-site', 'sec-fetch-mode': 'navigate' })).toBe(200);
    expect(await status({ origin: `http://${host}` }, 'POST')).toBe(200);
    expect(await status({ 'sec-fetch-site': 'same-site', 'sec-fetch-mode': 'cors' })).toBe(403);
    expect(await status({ 'sec-fetch-site': 'cross-site', 'sec-fetch-mode': 'navigate' }, 'POST')).toBe(403);
    expect(await status({ origin: 'http://5000-box-a.apps.example.com' })).toBe(403);
    expect(await status({ origin: 'null' }, 'POST')).toBe(403);
  });
});
