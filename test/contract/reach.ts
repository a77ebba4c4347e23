import { connect, createServer } from 'node:net';
import { networkInterfaces } from 'node:os';

/** Python that tries each address and prints a JSON list of `open` and `refused`. */
export const connectTo = (targets: readonly (readonly (string | number)[])[]): string =>
  [
    'import json, socket',
    'def attempt(target):',
    '  try: socket.create_connection(tuple(target), timeout=5).close(); return "open"',
    '  except OSError: return "refused"',
    `print(json.dumps([attempt(target) for target in json.loads('${JSON.stringify(targets)}')]))`,
  ].join('\n');

/** Something on this host that listens on all of its addresses, as a careless service does. */
export const listenOnHost = async () => {
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
export const canReach = (host: string, port: number): Promise<boolean> =>
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
