import { connect } from 'node:net';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Box, Problem } from '#contract';
import { type GatewayProcess, mainDriver, memoryOf, startGatewayProcess } from './harness.ts';
import { rawRequest, startServer, uploadServers } from './servers.ts';

const megabyte = 1024 * 1024;

describe.each(mainDriver)('hostile servers and callers on the %s driver', (driver) => {
  let gateway: GatewayProcess;
  let box: Box;
  beforeAll(async () => {
    gateway = await startGatewayProcess(driver, { CODEBOX_PORTS_ANSWER_SECONDS: '2' });
    box = await gateway.createBox({ network: 'none' });
    await uploadServers(gateway, box.id, 'hostile.py', 'reflect.py');
    await startServer(gateway, box.id, 'python3 hostile.py 7000', 7000, '/alive');
    await startServer(gateway, box.id, 'python3 reflect.py 5000', 5000);
  });
  afterAll(() => gateway?.dispose());

  const at = (path: string, port = 7000) => `/v1/boxes/${box.id}/ports/${port}${path}`;
  const problemOf = async (path: string, init: RequestInit = {}) => {
    const response = await gateway.call(at(path), init);
    const { status, code } = (await response.json()) as Problem;
    return [response.status, response.headers.get('content-type'), status, code];
  };
  const isAlive = async () => expect(await (await gateway.call(at('/alive'))).text()).toBe('alive');
  const type = 'application/problem+json';

  test('a server that does not complete a response head is a 504 problem', async () => {
    const paths = ['/silent', '/slow-head', '/slow-provisional'];
    const problems = await Promise.all(paths.map((path) => problemOf(path)));
    expect(problems).toEqual(paths.map(() => [504, type, 504, 'timeout']));
    await isAlive();
  });

  test('a server that violates HTTP is a 502 problem at little memory cost', async () => {
    const before = await memoryOf(gateway.pid());
    const paths = [
      '/endless-headers',
      '/endless-header',
      '/endless-status',
      '/many-headers',
      '/provisional',
      '/unasked-upgrade',
      '/garbage',
      '/close',
      '/half-head',
      '/length-and-chunks',
      '/two-lengths',
      '/bad-length',
      '/unknown-coding',
      '/control-byte',
      '/lone-cr',
      '/nul',
      '/status-0',
    ];
    for (const path of paths) expect([path, ...(await problemOf(path))]).toEqual([path, 502, type, 502, 'bad_gateway']);
    for (const path of paths)
      expect([path, ...(await problemOf(path, { method: 'POST', body: 'x' }))]).toEqual([
        path,
        502,
        type,
        502,
        'bad_gateway',
      ]);
    const after = await memoryOf(gateway.pid());
    expect((after.peak - before.now) / megabyte).toBeLessThan(64);
    await isAlive();
  });

  test('a body that is truncated or never ends cuts the connection, so that it does not look complete', async () => {
    for (const path of ['/short', '/endless-trailers', '/endless-extension']) {
      const response = await gateway.call(at(path));
      expect([path, response.status]).toEqual([path, 200]);
      await expect(response.arrayBuffer()).rejects.toThrow();
    }
    await isAlive();
  });

  test('a response that the client does not read is not buffered in the gateway', async () => {
    const before = await memoryOf(gateway.pid());
    const leave = new AbortController();
    const responses = await Promise.all(
      Array.from({ length: 20 }, () => gateway.call(at('/flood'), { signal: leave.signal })),
    );
    for (const response of responses)
      expect((await response.body?.getReader().read())?.value?.length).toBeGreaterThan(0);
    await gateway.run(box.id, 'import time; time.sleep(1)');
    expect(((await memoryOf(gateway.pid())).peak - before.now) / megabyte).toBeLessThan(96);
    leave.abort();
    await isAlive();
  });

  test('an extra response on a connection is not taken for the response to the next request', async () => {
    for (const path of ['/two-responses', '/after-204']) {
      const first = await gateway.call(at(path));
      expect(['first', '']).toContain(await first.text());
      await isAlive();
    }
  });

  test('a redirect is passed on instead of followed, and header bytes are passed unchanged', async () => {
    const redirect = await gateway.call(at('/redirect'), { redirect: 'manual' });
    expect([redirect.status, redirect.headers.get('location')]).toEqual([302, 'http://169.254.169.254/latest/']);
    expect((await rawRequest(gateway, at('/latin1'))).response.headers['x-name']).toBe('\xfcber');
  });

  /** Sends these bytes verbatim and resolves with everything that the gateway sends back. */
  const exchange = (bytes: string) =>
    new Promise<string>((done, failed) => {
      const { hostname, port } = new URL(gateway.url);
      const socket = connect({ host: hostname, port: Number(port) }, () => socket.write(bytes, 'latin1'));
      let received = '';
      socket.setTimeout(5000, () => socket.destroy());
      socket.setEncoding('latin1').on('data', (text) => {
        received += text;
      });
      socket.once('error', failed).once('close', () => done(received));
    });

  test('no request can be smuggled inside another', async () => {
    const smuggled = `GET ${at('/smuggled', 5000)} HTTP/1.1\r\nHost: x\r\nX-API-Key: ${gateway.key}\r\n\r\n`;
    const head = `POST ${at('/', 5000)} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nX-API-Key: ${gateway.key}\r\n`;
    const chunked = `0\r\n\r\n${smuggled}`;
    const framings = [
      `Content-Length: ${chunked.length}\r\nTransfer-Encoding: chunked\r\n`,
      'Transfer-Encoding: chunked\r\nContent-Length: 5\r\n',
      'Content-Length: 5\r\nContent-Length: 6\r\n',
      'Content-Length: 5, 6\r\n',
      'Content-Length: +5\r\n',
      'Content-Length : 5\r\n',
      'Transfer-Encoding: xchunked\r\n',
      'Transfer-Encoding: chunked, identity\r\n',
      'Transfer-Encoding: gzip, chunked\r\n',
      'Transfer-Encoding: chunked\r\nTransfer-Encoding: gzip\r\n',
      'Transfer-Encoding:\x0bchunked\r\n',
      'Transfer-Encoding: chunked\nContent-Length: 5\r\n',
      'X: a\rTransfer-Encoding: chunked\r\n',
      'X: a\r\n Transfer-Encoding: chunked\r\n Content-Length: 4\r\n',
      'X: a\0b\r\n',
      'X\x01: a\r\n',
    ];
    for (const framing of framings) {
      const received = await exchange(`${head}${framing}\r\n${chunked}`);
      expect([framing, received.split('\r\n')[0]]).toEqual([framing, expect.stringContaining('HTTP/1.1 400')]);
      expect(received).not.toContain('smuggled');
    }
    const honest = await exchange(`${head}Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n`);
    expect(honest).toContain('"body": "hello"');
  });

  test('a request with an incomplete body times out and is not left open', async () => {
    const head = `POST ${at('/', 5000)} HTTP/1.1\r\nHost: x\r\nX-API-Key: ${gateway.key}\r\nContent-Length: 100\r\n\r\n`;
    expect(await exchange(`${head}half`)).toContain('HTTP/1.1 504');
    await isAlive();
  });
});
