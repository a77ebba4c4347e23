import { connect, createServer } from 'node:net';
import { networkInterfaces } from 'node:os';
import { expect } from 'vitest';
import { askBox, runInBox, type ServedInstance } from './box-client.ts';

/** Python that tries each address and prints a JSON list of `open` and `refused`. */
const connectTo = (targets: readonly (readonly (string | number)[])[]): string =>
  [
    'import json, socket',
    'from concurrent.futures import ThreadPoolExecutor',
    'def attempt(target):',
    '  try: socket.create_connection(tuple(target), timeout=5).close(); return "open"',
    '  except OSError: return "refused"',
    `print(json.dumps(list(ThreadPoolExecutor(16).map(attempt, json.loads('${JSON.stringify(targets)}')))))`,
  ].join('\n');

/** Something on this host that listens on all of its addresses, as a careless service does. */
const listenOnHost = async () => {
  const server = createServer((socket) => socket.destroy());
  await new Promise<void>((done) => server.listen(0, '0.0.0.0', done));
  const address = server.address();
  const addresses = Object.values(networkInterfaces())
    .flatMap((all) => all ?? [])
    .filter(({ family, internal }) => family === 'IPv4' && !internal)
    .map((found) => found.address);
  return {
    port: typeof address === 'object' && address !== null ? address.port : 0,
    addresses: addresses.slice(0, 4),
    [Symbol.asyncDispose]: () => new Promise<void>((done) => server.close(() => done())),
  };
};

/** Whether a TCP connection from this host comes about within 5 seconds. */
const canReach = (host: string, port: number): Promise<boolean> =>
  new Promise((done) => {
    const socket = connect({ host, port, timeout: 5000 });
    const answer = (reached: boolean) => {
      socket.destroy();
      done(reached);
    };
    socket.once('connect', () => answer(true));
    socket.once('timeout', () => answer(false));
    socket.once('error', () => answer(false));
  });

/** Holds for two boxes on the internet: `one` reaches public addresses and neither `other`, nor this host, nor metadata. */
export const expectPublicAddressesOnly = async (one: ServedInstance, other: ServedInstance): Promise<void> => {
  await using host = await listenOnHost();
  const server =
    "import socketserver; socketserver.TCPServer(('', 8000), socketserver.BaseRequestHandler).serve_forever()";
  await runInBox(other.address, ['bash', '-c', `setsid python -c "${server}" > /dev/null 2>&1 & sleep 1`]);
  const self =
    "import socket, json; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.connect(('1.1.1.1', 9)); print(json.dumps(s.getsockname()[0]))";
  const neighbour = await askBox<string>(other.address, self);
  const gateway = neighbour.replace(/\d+$/, '1');
  const forbidden = [
    [neighbour, 8000],
    ...[gateway, ...host.addresses].map((address) => [address, host.port]),
    ['169.254.169.254', 80],
    ['172.17.0.1', 2375],
  ];
  expect(await askBox(other.address, connectTo([['127.0.0.1', 8000]]))).toEqual(['open']);
  const answers = await askBox<string[]>(one.address, connectTo(forbidden));
  expect(answers).toEqual(forbidden.map(() => 'refused'));
  if (await canReach('pypi.org', 443)) {
    expect(await askBox(one.address, connectTo([['pypi.org', 443]]))).toEqual(['open']);
  }
};

const knock = `
import http.client, json, socket
class Connection(http.client.HTTPConnection):
    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect("/run/codebox/box.sock")
def status(path, headers):
    connection = Connection("localhost")
    connection.request("GET", path, headers=headers)
    return connection.getresponse().status
paths = ["/codebox/health", "/codebox/files/", "/api/kernels"]
print(json.dumps([status(path, headers) for path in paths for headers in ({}, {"X-CodeBox-Token": "another"})]))`;

/** Holds for code of a box at its own box server: neither without a token nor with another one is it answered. */
export const expectRefusalWithoutToken = async (box: ServedInstance): Promise<void> => {
  expect(await askBox(box.address, knock)).toEqual([401, 401, 401, 401, 401, 401]);
};
