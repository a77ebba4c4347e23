import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type Server } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { createGate } from '../../../waiting/gate.ts';

const lookEveryMs = 50;

/**
 * A bound on what is done at once by all processes of this host that name the same `place`: at most `count`, the others wait, those
 * of one process in order. A slot is an abstract Unix socket, which ends with its process, however that ends. Where the system
 * knows none (only Linux does) each process has a bound of its own.
 */
export const createStartSlots = ({ place, count }: { place: string; count: number }) => {
  const gate = createGate(count);
  const name = createHash('sha256').update(place).digest('hex').slice(0, 32);

  /** Undefined when another process has it. */
  const take = async (slot: number): Promise<Server | undefined> => {
    const server = createServer((socket) => socket.destroy());
    server.listen(`\0codebox-start-${name}-${slot}`);
    try {
      await once(server, 'listening');
      return server.unref();
    } catch {
      return undefined;
    }
  };

  const takeAny = async (signal: AbortSignal): Promise<Server> => {
    for (;;) {
      for (let slot = 0; slot < count; slot++) {
        const taken = await take(slot);
        if (taken) return taken;
      }
      await sleep(lookEveryMs, undefined, { signal });
    }
  };

  return <T>(signal: AbortSignal, start: () => Promise<T>): Promise<T> =>
    gate(signal, async () => {
      if (process.platform !== 'linux') return await start();
      const slot = await takeAny(signal);
      try {
        return await start();
      } finally {
        slot.close();
      }
    });
};

export type StartSlots = ReturnType<typeof createStartSlots>;
