import { createServer } from 'node:net';

/** A port of 127.0.0.1 below those that outgoing connections are given, one of which could take it before it is listened on. */
export const freePort = async (): Promise<number> => {
  for (;;) {
    const port = 10_000 + Math.floor(Math.random() * 20_000);
    const isFree = await new Promise((told) => {
      const server = createServer().once('error', () => told(false));
      server.listen(port, '127.0.0.1', () => server.close(() => told(true)));
    });
    if (isFree) return port;
  }
};
