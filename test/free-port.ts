import { createServer } from 'node:net';

/** Below the ephemeral range, from which an outgoing connection could take the port before it is listened on. */
const [lowest, perWorker, workers] = [10_000, 2000, 10];
/** A worker listens on its port only seconds later, so each has a range of its own, from which no other takes a port. */
const first = lowest + (Number(process.env.VITEST_POOL_ID ?? 0) % workers) * perWorker;
const given = new Set<number>();

/** Finds a free port that this worker has not yet been given. */
export const freePort = async (host = '127.0.0.1'): Promise<number> => {
  for (;;) {
    const port = first + Math.floor(Math.random() * perWorker);
    if (given.has(port)) continue;
    given.add(port);
    const isFree = await new Promise((resolve) => {
      const server = createServer().once('error', () => resolve(false));
      server.listen(port, host, () => server.close(() => resolve(true)));
    });
    if (isFree) return port;
  }
};
