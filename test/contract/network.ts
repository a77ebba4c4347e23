import { connect, createServer } from 'node:net';
import { networkInterfaces } from 'node:os';
import { expect } from 'vitest';
import { evalInBox, runInBox, type ServedInstance } from './box-client.ts';

/** Python source that connects to each address and prints a JSON list of `open` and `refused`. */
const connectTo = (targets: readonly (readonly (string | number)[])[]): string =>
  [
    'import json, socket',
    'from concurrent.futures import ThreadPoolExecutor',
    'def attempt(target):',
    '  try: socket.create_connection(tuple(target), timeout=5).close(); return "open"',
    '  except OSError: return "refused"',
    `print(json.dumps(list(ThreadPoolExecutor(16).map(attempt, json.loads('${JSON.stringify(targets)}')))))`,
  ].join('\n');

/** Addresses that no box may reach, with ports where clouds, daemons and this host may listen. */
const notPublic: readonly (readonly [address: string, port: number])[] = [
  // Metadata services of clouds, also as an IPv4 address in IPv6.
  ['169.254.169.254', 80],
  ['100.100.100.200', 80],
  ['168.63.129.16', 80],
  ['192.0.0.192', 80],
  ['fd00:ec2::254', 80],
  ['::ffff:169.254.169.254', 80],
  ['64:ff9b::a9fe:a9fe', 80],
  // The host of user-mode networks, private networks, carrier-grade NAT, benchmarks, and the Docker daemon.
  ['10.0.2.2', 22],
  ['192.168.0.1', 80],
  ['100.64.0.1', 80],
  ['198.18.0.1', 80],
  ['172.17.0.1', 2375],
  ['fe80::1%lo', 22],
  ['::1', 22],
  ['0.0.0.0', 22],
];

/** Listens on all addresses of this host, as a careless service does. */
const listenOnHost = async () => {
  const server = createServer((socket) => socket.destroy());
  await new Promise<void>((done) => server.listen(0, done));
  const address = server.address();
  const addresses = Object.values(networkInterfaces())
    .flatMap((all) => all ?? [])
    .filter(({ internal, scopeid }) => !internal && !scopeid)
    .map((found) => found.address);
  return {
    port: typeof address === 'object' && address !== null ? address.port : 0,
    addresses: ['127.0.0.1', '::1', ...addresses.slice(0, 6)],
    [Symbol.asyncDispose]: () => new Promise<void>((done) => server.close(() => done())),
  };
};

/** Whether a TCP connection from this host succeeds within 5 seconds. */
const canReach = (host: string, port: number): Promise<boolean> =>
  new Promise((done) => {
    const socket = connect({ host, port, timeout: 5000 });
    const finish = (reached: boolean) => {
      socket.destroy();
      done(reached);
    };
    socket.once('connect', () => finish(true));
    socket.once('timeout', () => finish(false));
    socket.once('error', () => finish(false));
  });

/** Expects of two boxes on the internet that `one` reaches public addresses, if boxes can, but not `other`, this host or metadata services. */
export const expectPublicAddressesOnly = async (
  one: ServedInstance,
  other: ServedInstance,
  reachesInternet: boolean,
): Promise<void> => {
  await using host = await listenOnHost();
  const server =
    "import os, socketserver; server = socketserver.TCPServer(('', 8000), socketserver.BaseRequestHandler); os.fork() or server.serve_forever()";
  await runInBox(other, ['bash', '-c', `setsid python -c "${server}" > /dev/null 2>&1`]);
  const self =
    "import socket, json; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.connect(('1.1.1.1', 9)); print(json.dumps(s.getsockname()[0]))";
  const neighbour = await evalInBox<string>(other, self);
  const gateway = neighbour.replace(/\d+$/, '1');
  const forbidden = [
    [neighbour, 8000],
    ...[gateway, ...host.addresses].map((address) => [address, host.port]),
    ...notPublic,
  ];
  expect(await evalInBox(other, connectTo([['127.0.0.1', 8000]]))).toEqual(['open']);
  const results = await evalInBox<string[]>(one, connectTo(forbidden));
  expect(results).toEqual(forbidden.map(() => 'refused'));
  if (reachesInternet && (await canReach('pypi.org', 443))) {
    expect(await evalInBox(one, connectTo([['pypi.org', 443]]))).toEqual(['open']);
  }
};

/** Expects of a box without a network that it reaches no public address, this host or metadata service. */
export const expectNoNetwork = async (box: ServedInstance): Promise<void> => {
  await using host = await listenOnHost();
  const forbidden = [...host.addresses.map((address) => [address, host.port]), ['1.1.1.1', 443], ...notPublic];
  expect(await evalInBox(box, connectTo(forbidden))).toEqual(forbidden.map(() => 'refused'));
};

/** Python source that calls the box server from inside the box and prints the response statuses as a JSON list. */
const callOwnBoxServer = (address: string): string => `
import http.client, json, socket, ssl
kind, _, place = "${address}".partition(":")
class Connection(http.client.HTTPConnection):
    def connect(self):
        if kind == "unix":
            self.sock = socket.socket(socket.AF_UNIX)
            self.sock.connect("/run/codebox/box.sock")
        else:
            host, _, port = place.rpartition(":")
            # A stranger does not know the key.
            anyone = ssl.create_default_context()
            anyone.check_hostname, anyone.verify_mode = False, ssl.CERT_NONE
            self.sock = anyone.wrap_socket(socket.create_connection((host.strip("[]"), int(port)), timeout=5))
def status(path, headers):
    connection = Connection("localhost")
    connection.request("GET", path, headers=headers)
    return connection.getresponse().status
paths = ["/codebox/health", "/codebox/files/", "/api/kernels"]
print(json.dumps([status(path, headers) for path in paths for headers in ({}, {"X-CodeBox-Token": "another"})]))`;

/** Expects that the box server refuses code in its own box, both without a token and with a wrong one. */
export const expectRefusalWithoutToken = async (box: ServedInstance): Promise<void> => {
  expect(await evalInBox(box, callOwnBoxServer(box.address))).toEqual([401, 401, 401, 401, 401, 401]);
};
