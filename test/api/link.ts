import { once } from 'node:events';
import { createServer, connect as dial, type Socket } from 'node:net';

/** A TCP proxy that can fail as networks do. */
export interface Link extends AsyncDisposable {
  url: string;
  /** Cuts all connections; new ones work. */
  cut: () => void;
  /** Cuts the next connection at the first byte of its response, so that the request has arrived and the response is lost. */
  loseNextResponse: () => void;
  /** Stalls after this many more response bytes: open connections hang, and new ones get no response. */
  silence: (afterBytes?: number) => void;
  /** Stalls after this many more request bytes. */
  silenceOnceSent: (bytes: number) => void;
  isSilent: () => boolean;
  /** Ends the stall for new connections; stalled ones stay stalled. */
  speak: () => void;
  /** Number of connections so far. */
  count: () => number;
}

/** Opens a link to an HTTP server on this machine. */
export const openLink = async (url: string): Promise<Link> => {
  const { hostname, port } = new URL(url);
  const open = new Set<Socket>();
  let made = 0;
  let losesNext = false;
  let leftBytes = Number.POSITIVE_INFINITY;
  let leftToSend = Number.POSITIVE_INFINITY;
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
    near.on('data', (chunk) => {
      leftToSend -= chunk.length;
      if (leftToSend <= 0) leftBytes = 0;
    });
    near.pipe(far);
    far.on('data', (chunk) => {
      if (losesNext) {
        losesNext = false;
        return end();
      }
      const passed = chunk.subarray(0, leftBytes);
      leftBytes -= passed.length;
      near.write(passed);
      if (passed.length < chunk.length) far.removeAllListeners('data').pause();
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
    loseNextResponse: () => {
      losesNext = true;
    },
    silence(afterBytes = 0) {
      leftBytes = afterBytes;
    },
    silenceOnceSent(bytes) {
      leftToSend = bytes;
    },
    isSilent: () => leftBytes <= 0,
    speak() {
      leftBytes = Number.POSITIVE_INFINITY;
      leftToSend = Number.POSITIVE_INFINITY;
    },
    count: () => made,
    async [Symbol.asyncDispose]() {
      cut();
      server.close();
      await once(server, 'close');
    },
  };
};

/** A TCP load balancer for servers of this machine: each connection goes to the next one that listens. */
export const openBalancer = async (urls: readonly string[]): Promise<AsyncDisposable & { url: string }> => {
  const open = new Set<Socket>();
  let turn = 0;
  const server = createServer(async (near) => {
    open.add(near);
    near.on('error', () => near.destroy()).on('close', () => open.delete(near));
    turn += 1;
    for (const [index] of urls.entries()) {
      const { hostname, port } = new URL(urls[(turn + index) % urls.length] ?? '');
      const far = dial(Number(port), hostname);
      const isListening = await once(far, 'connect').then(
        () => true,
        () => false,
      );
      if (!isListening) continue;
      far.on('error', () => near.destroy()).on('close', () => near.destroy());
      near.on('close', () => far.destroy());
      near.pipe(far).pipe(near);
      return;
    }
    near.destroy();
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  return {
    url: `http://127.0.0.1:${typeof address === 'object' && address ? address.port : 0}`,
    async [Symbol.asyncDispose]() {
      for (const socket of open) socket.destroy();
      server.close();
      await once(server, 'close');
    },
  };
};
