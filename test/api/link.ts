import { once } from 'node:events';
import { createServer, connect as dial, type Socket } from 'node:net';

/** A TCP connection in the middle that can fail as networks do. */
export interface Link extends AsyncDisposable {
  url: string;
  /** Cuts all connections; new ones work. */
  cut: () => void;
  /** Cuts the next connection at the first byte that comes back, so that its request has arrived and its answer is lost. */
  loseNextAnswer: () => void;
  /** Connections so far. */
  count: () => number;
}

/** A link to an HTTP server on this machine. */
export const openLink = async (url: string): Promise<Link> => {
  const { hostname, port } = new URL(url);
  const open = new Set<Socket>();
  let made = 0;
  let losesNext = false;
  const server = createServer((near) => {
    made += 1;
    const far = dial(Number(port), hostname);
    const end = () => {
      open.delete(near);
      near.destroy();
      far.destroy();
    };
    open.add(near);
    for (const socket of [near, far]) socket.on('error', end).on('close', end);
    near.pipe(far);
    far.on('data', (chunk) => {
      if (losesNext) {
        losesNext = false;
        return end();
      }
      near.write(chunk);
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  const cut = () => {
    for (const socket of open) socket.destroy();
  };
  return {
    url: `http://127.0.0.1:${typeof address === 'object' && address ? address.port : 0}`,
    cut,
    loseNextAnswer: () => {
      losesNext = true;
    },
    count: () => made,
    async [Symbol.asyncDispose]() {
      cut();
      server.close();
      await once(server, 'close');
    },
  };
};
