import type { BoxRef } from '../../boxes/box-ref.ts';
import type { RouteParts } from '../../http/app.ts';

/** The calls that a later message can cancel. That message may reach another gateway. */
export const createCancellations = ({ executions, commands }: Pick<RouteParts, 'executions' | 'commands'>) => {
  const open = new Map<string, AbortController>();
  const keyOf = (session: string, request: unknown) => JSON.stringify([session, request]);

  return {
    /** Registers a call until it is released. Its signal fires when it is canceled at this gateway; without a session it cannot be. */
    register(session: string | undefined, request: unknown): { signal: AbortSignal } & Disposable {
      const controller = new AbortController();
      const key = keyOf(session ?? '', request);
      if (session !== undefined) open.set(key, controller);
      const release = () => {
        if (open.get(key) === controller) open.delete(key);
      };
      return { signal: controller.signal, [Symbol.dispose]: release };
    },

    /** Cancels a call. Returns false for one that does not run at this gateway. */
    cancel(session: string, request: unknown): boolean {
      const controller = open.get(keyOf(session, request));
      controller?.abort();
      return controller !== undefined;
    },

    /**
     * Stops the run in a box if exactly one is active. Needed when the call was made at another gateway: only that one knows which run
     * it started. The box tells which runs are active: the record of one that has just ended may still say that it runs.
     */
    async stopOnly(ref: BoxRef): Promise<void> {
      const { items } = await executions.list(ref, { limit: 10 });
      const running = [
        ...items.filter(({ live }) => live !== undefined).map(({ row }) => row.id),
        ...(await commands.list(ref)).filter(({ status }) => status === 'running').map(({ id }) => id),
      ];
      const [id] = running;
      if (id === undefined || running.length > 1) return;
      await (id.startsWith('cmd-') ? commands.kill(ref, id) : executions.interrupt(ref, id));
    },
  };
};
