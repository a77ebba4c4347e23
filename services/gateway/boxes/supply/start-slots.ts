import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type Server } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { createGate } from '../../../waiting/gate.ts';

const pollMs = 50;

/**
 * Limits how many starts run at once among all processes of this host that name the same `place`: at most `count`. The others wait,
 * those of one process in order. A slot is an abstract Unix socket, which the kernel closes however its process ends. Only Linux has
 * those; elsewhere each process has a limit of its own.
 */
export const createStartSlots = ({ place, count }: { place: string; count: number }) => {
  const gate = createGate(count);
  const name = createHash('sha256').update(place).digest('hex').slice(0, 32);

  /** Resolves with undefined when another process has the slot. */
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
      await sleep(pollMs, undefined, { signal });
    }
  };

  /** Runs `start` in a slot, which it may leave before it ends. */
  return async <T>(signal: AbortSignal, start: (leave: () => void) => Promise<T>): Promise<T> => {
    const { started } = await gate(signal, async () => {
      const slot = process.platform === 'linux' ? await takeAny(signal) : undefined;
      const { promise: left, resolve: leave } = Promise.withResolvers<void>();
      const started = start(leave);
      const ended = started.then(
        () => {},
        () => {},
      );
      await Promise.race([left, ended]);
      slot?.close();
      return { started };
    });
    return await started;
  };
};

export type StartSlots = ReturnType<typeof createStartSlots>;
