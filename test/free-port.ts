import { createServer } from 'node:net';

/** A port of an address of this host, 127.0.0.1 unless told, below those that outgoing connections are given, one of which could take it before it is listened on. */
export const freePort = async (host = '127.0.0.1'): Promise<number> => {
  for (;;) {
    const port = 10_000 + Math.floor(Math.random() * 20_000);
    const isFree = await new Promise((told) => {
      const server = createServer().once('error', () => told(false));
      server.listen(port, host, () => server.close(() => told(true)));
    });
    if (isFree) return port;
  }
};
