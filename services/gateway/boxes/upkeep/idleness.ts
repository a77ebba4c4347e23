import type { OnIdle } from '#contract';
import type { BoxConnections } from '../../box-server/connections.ts';
import type { Store } from '../../store/store.ts';
import type { Commands } from '../runs/commands.ts';

export interface IdlenessOptions {
  site: string;
  boxes: Pick<Store['boxes'], 'idle' | 'touch'>;
  connections: BoxConnections;
  commands: Pick<Commands, 'attend'>;
  /** How late the use of a box by another gateway may be written. */
  lagMs: number;
}

const answerMs = 2000;

/**
 * Finds boxes that are idle. Requests, open streams, terminals and traffic of ports are uses of a box, which its record tells; so are
 * running executions, which have records of their own, and running commands, which only the box knows of: it is asked.
 */
export const createIdleness = ({ site, boxes, connections, commands, lagMs }: IdlenessOptions) => {
  /** A command that runs there; undefined when none does or there is no box to ask. Throws when the box does not say. */
  const findRunning = async (instance: string | null, address: string | null) => {
    if (instance === null || address === null) return undefined;
    const server = connections.to(instance, address);
    const command = (await server.commands(AbortSignal.timeout(answerMs))).find(({ state }) => state !== 'done');
    return command && { server, command };
  };

  /**
   * Ids of some boxes of this site, of those that do one of `onIdle` then, that are past their idle time and in which nothing runs. One that does
   * not answer counts as idle only some time later. The others count as used until their commands end.
   */
  return async (onIdle: readonly OnIdle[], limit: number): Promise<string[]> => {
    const found = limit > 0 ? await boxes.idle(site, onIdle, lagMs, limit) : [];
    const looked = await Promise.all(
      found.map(async (box) => {
        try {
          const running = await findRunning(box.instance, box.address);
          return { ...box, running, isQuiet: running === undefined };
        } catch {
          return { ...box, running: undefined, isQuiet: box.isSilent };
        }
      }),
    );
    const busy = looked.flatMap(({ id, tenantId, running }) => (running ? [{ id, tenantId, ...running }] : []));
    await boxes.touch(busy.map(({ id }) => id));
    // One of them will do: when it has ended, the box is asked anew.
    for (const { id, tenantId, server, command } of busy)
      commands.attend({ ref: { tenant: tenantId, box: id }, server, id: command.id }, command.lastSeq);
    return looked.flatMap(({ id, isQuiet }) => (isQuiet ? [id] : []));
  };
};

export type Idleness = ReturnType<typeof createIdleness>;
