import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { createOutbound, OutboundError } from './outbound.ts';
import { createReach } from './reach.ts';

const hosts: string[] = [];
const server = createServer((request, response) => {
  hosts.push(request.headers.host ?? '');
  if (request.url === '/silent') return;
  if (request.url === '/breaks')
    return void response.writeHead(200, { 'content-length': 9 }).write('x', () => response.destroy());
  if (request.url === '/moved') response.writeHead(302, { location: 'http://127.0.0.1:1/' });
  if (request.url === '/counts') {
    let bytes = 0;
    request.on('data', (chunk: Buffer) => {
      bytes += chunk.length;
    });
    return void request.on('end', () => response.end(String(bytes)));
  }
  response.end('x'.repeat(100_000));
});
let port: number;
beforeAll(async () => {
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  ({ port } = server.address() as AddressInfo);
});
afterAll(() => server.close());

const send = (outbound: ReturnType<typeof createOutbound>, url: string) =>
  outbound.send({ url, method: 'POST', headers: {}, body: '{}', signal: AbortSignal.timeout(5000), maxBytes: 1000 });

describe('requests to hosts that tenants name', () => {
  test.each([
    '127.0.0.1',
    '127.8.9.10',
    '0.0.0.0',
    '10.1.2.3',
    '100.100.100.200',
    '169.254.169.254',
    '172.31.0.1',
    '192.168.1.1',
    '192.0.0.192',
    '168.63.129.16',
    '198.19.0.1',
    '224.0.0.1',
    '255.255.255.255',
    '::',
    '::1',
    '::ffff:127.0.0.1',
    '::ffff:8.8.8.8',
    '::127.0.0.1',
    '64:ff9b::7f00:1',
    '64:ff9b:1::1',
    '2002:7f00:1::',
    '2001:0:4136:e378::1',
    '2001:db8::1',
    'fc00::1',
    'fd00:ec2::254',
    'fe80::1',
    'fe80::1%lo',
    'fec0::1',
    'ff02::1',
    'no address',
  ])('do not reach %s', (address) => {
    expect(createReach([]).permits(address, 'https:')).toBe(false);
  });

  test('reach hosts of the internet by TLS, and what the operator allows', () => {
    const reach = createReach(['10.1.0.0/16', 'fd00:1::/32']);
    for (const address of ['8.8.8.8', '100.128.0.1', '2606:4700::1111', '10.1.9.9', 'fd00:1::5'])
      expect([address, reach.permits(address, 'https:')]).toEqual([address, true]);
    expect(reach.permits('8.8.8.8', 'http:')).toBe(false);
    expect(reach.permits('10.1.9.9', 'http:')).toBe(true);
    expect(reach.permits('10.2.0.1', 'https:')).toBe(false);
    expect(reach.permits('::ffff:10.1.9.9', 'https:')).toBe(false);
  });

  test('are refused for every notation of an address', async () => {
    const outbound = createOutbound([]);
    for (const host of ['127.0.0.1', '2130706433', '0x7f.1', '0177.0.0.1', '127.1', '[::1]', '[::ffff:7f00:1]', '0'])
      for (const scheme of ['http', 'https']) {
        const url = `${scheme}://${host}:${port}/`;
        await expect(send(outbound, url)).rejects.toThrow(OutboundError);
        expect(outbound.faultOf(url)).toBeDefined();
      }
    expect(outbound.faultOf('http://example.com/')).toBeDefined();
    expect(outbound.faultOf('https://example.com/')).toBeUndefined();
    expect(hosts).toEqual([]);
    await outbound.close();
  });

  test('connect only to an address that was checked, whatever the name resolves to at another time', async () => {
    const answers = [['127.0.0.1'], ['127.0.0.2'], ['::1', '127.0.0.1'], []];
    const outbound = createOutbound(['127.0.0.1'], { resolve: async () => answers.shift() ?? [] });
    const url = (name: string) => `http://${name}.example:${port}/`;
    expect((await send(outbound, url('first'))).status).toBe(200);
    await expect(send(outbound, url('second'))).rejects.toThrow('not one that may be reached');
    expect((await send(outbound, url('third'))).status).toBe(200);
    await expect(send(outbound, url('fourth'))).rejects.toThrow('unknown');
    expect(hosts).toEqual([`first.example:${port}`, `third.example:${port}`]);
    await outbound.close();
  });

  test('follow no redirect, and read a bounded part of a response', async () => {
    const outbound = createOutbound(['127.0.0.1']);
    const { status, text } = await send(outbound, `http://127.0.0.1:${port}/moved`);
    expect([status, text.length]).toEqual([302, 1000]);
    await outbound.close();
  });

  test('end when nothing goes on, and say that a response broke off', async () => {
    const outbound = createOutbound(['127.0.0.1'], { connections: null });
    const body = Buffer.alloc(300_000);
    const put = (path: string, idleMs: number) =>
      outbound.send({
        url: `http://127.0.0.1:${port}${path}`,
        method: 'PUT',
        headers: { 'content-length': String(body.length) },
        body,
        signal: AbortSignal.timeout(20_000),
        maxBytes: 1000,
        idleMs,
      });
    await expect(put('/silent', 200)).rejects.toThrow('Nothing was sent or received for 0.2 s.');
    expect(await put('/counts', 20_000)).toMatchObject({ text: '300000', isBroken: false });
    expect(await put('/breaks', 20_000)).toMatchObject({ status: 200, isBroken: true });
    await outbound.close();
  });
});
