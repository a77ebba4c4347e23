import { connect } from 'node:net';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Box, Problem } from '#contract';
import { mainDriver, memoryOf, type RunningGateway, startGateway } from './harness.ts';
import { rawRequest, startServer, uploadServers } from './servers.ts';

const megabyte = 1024 * 1024;

describe.each(mainDriver)('hostile servers and callers on the %s driver', (driver) => {
  let gateway: RunningGateway;
  let box: Box;
  beforeAll(async () => {
    gateway = await startGateway(driver, { CODEBOX_PORTS_ANSWER_SECONDS: '2' });
    box = await gateway.createBox({ network: 'none' });
    await uploadServers(gateway, box.id, 'hostile.py', 'reflect.py');
    await startServer(gateway, box.id, 'python3 hostile.py 7000', 7000, '/alive');
    await startServer(gateway, box.id, 'python3 reflect.py 5000', 5000);
  });
  afterAll(() => gateway?.dispose());

  const at = (path: string, port = 7000) => `/v1/boxes/${box.id}/ports/${port}${path}`;
  const problemOf = async (path: string, init: RequestInit = {}) => {
    const answer = await gateway.call(at(path), init);
    const { status, code } = (await answer.json()) as Problem;
    return [answer.status, answer.headers.get('content-type'), status, code];
  };
  const isAlive = async () => expect(await (await gateway.call(at('/alive'))).text()).toBe('alive');
  const type = 'application/problem+json';

  test('a server that does not get to an answer ends in a 504 problem', async () => {
    const paths = ['/silent', '/slow-head', '/slow-provisional'];
    const problems = await Promise.all(paths.map((path) => problemOf(path)));
    expect(problems).toEqual(paths.map(() => [504, type, 504, 'timeout']));
    await isAlive();
  });

  test('a server that breaks HTTP ends in a 502 problem, and costs little memory', async () => {
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

  test('a body that breaks off or never ends is cut, so that nobody takes it for whole', async () => {
    for (const path of ['/short', '/endless-trailers', '/endless-extension']) {
      const answer = await gateway.call(at(path));
      expect([path, answer.status]).toEqual([path, 200]);
      await expect(answer.arrayBuffer()).rejects.toThrow();
    }
    await isAlive();
  });

  test('a flood that nobody reads stays in the box, and ends when the reader leaves', async () => {
    const before = await memoryOf(gateway.pid());
    const leave = new AbortController();
    const answers = await Promise.all(
      Array.from({ length: 20 }, () => gateway.call(at('/flood'), { signal: leave.signal })),
    );
    for (const answer of answers) expect((await answer.body?.getReader().read())?.value?.length).toBeGreaterThan(0);
    await gateway.run(box.id, 'import time; time.sleep(1)');
    expect(((await memoryOf(gateway.pid())).peak - before.now) / megabyte).toBeLessThan(96);
    leave.abort();
    await isAlive();
  });

  test('a second answer in the place of one is not taken for the answer to what is asked next', async () => {
    for (const path of ['/two-answers', '/after-204']) {
      const first = await gateway.call(at(path));
      expect(['first', '']).toContain(await first.text());
      await isAlive();
    }
  });

  test('a redirect is passed on and not followed; header bytes come as they were', async () => {
    const redirect = await gateway.call(at('/redirect'), { redirect: 'manual' });
    expect([redirect.status, redirect.headers.get('location')]).toEqual([302, 'http://169.254.169.254/latest/']);
    expect((await rawRequest(gateway, at('/latin1'))).answer.headers['x-name']).toBe('\xfcber');
  });

  /** What the gateway says to these bytes, sent as they are. */
  const say = (bytes: string) =>
    new Promise<string>((done, failed) => {
      const { hostname, port } = new URL(gateway.url);
      const socket = connect({ host: hostname, port: Number(port) }, () => socket.write(bytes, 'latin1'));
      let said = '';
      socket.setTimeout(5000, () => socket.destroy());
      socket.setEncoding('latin1').on('data', (text) => {
        said += text;
      });
      socket.once('error', failed).once('close', () => done(said));
    });

  test('no request can be smuggled behind another', async () => {
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
      const said = await say(`${head}${framing}\r\n${chunked}`);
      expect([framing, said.split('\r\n')[0]]).toEqual([framing, expect.stringContaining('HTTP/1.1 400')]);
      expect(said).not.toContain('smuggled');
    }
    const honest = await say(`${head}Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n`);
    expect(honest).toContain('"body": "hello"');
  });

  test('a caller who announces more than comes leaves no half request running', async () => {
    const head = `POST ${at('/', 5000)} HTTP/1.1\r\nHost: x\r\nX-API-Key: ${gateway.key}\r\nContent-Length: 100\r\n\r\n`;
    expect(await say(`${head}half`)).toContain('HTTP/1.1 504');
    await isAlive();
  });
});
