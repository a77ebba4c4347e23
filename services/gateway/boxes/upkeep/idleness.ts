import type { OnIdle } from '#contract';
import type { BoxConnections } from '../../box-server/connections.ts';
import type { Store } from '../../store/store.ts';
import type { Commands } from '../runs/commands.ts';

export interface IdlenessOptions {
  site: string;
  boxes: Pick<Store['boxes'], 'idle' | 'touch'>;
  connections: BoxConnections;
  commands: Pick<Commands, 'attend'>;
  /** How late another gateway may write the use of a box. */
  lagMs: number;
}

const responseMs = 2000;

/**
 * Finds idle boxes. Requests, open streams, terminals and port traffic are on record as uses of a box, and running executions have
 * records of their own. Only the box itself knows of running commands, so it is called.
 */
export const createIdleness = ({ site, boxes, connections, commands, lagMs }: IdlenessOptions) => {
  /** Returns a command that runs in an instance; undefined when none does or there is no address. Throws when the box does not respond. */
  const findRunning = async (instance: string | null, address: string | null) => {
    if (instance === null || address === null) return undefined;
    const server = connections.to(instance, address);
    const command = (await server.commands(AbortSignal.timeout(responseMs))).find(({ state }) => state !== 'done');
    return command && { server, command };
  };

  /**
   * Returns ids of boxes of this site with one of these `onIdle` actions that are past their idle time and in which nothing runs, up to
   * `limit`. A box that does not respond counts as idle only some time later. Boxes with running commands are noted as used.
   */
  return async (onIdle: readonly OnIdle[], limit: number): Promise<string[]> => {
    const found = limit > 0 ? await boxes.idle(site, onIdle, lagMs, limit) : [];
    const checked = await Promise.all(
      found.map(async (box) => {
        try {
          const running = await findRunning(box.instance, box.address);
          return { ...box, running, isQuiet: running === undefined };
        } catch {
          return { ...box, running: undefined, isQuiet: box.isSilent };
        }
      }),
    );
    const busy = checked.flatMap(({ id, tenantId, running }) => (running ? [{ id, tenantId, ...running }] : []));
    await boxes.touch(busy.map(({ id }) => id));
    // Following one command is enough: the box is checked again after its end.
    for (const { id, tenantId, server, command } of busy)
      commands.attend({ ref: { tenant: tenantId, box: id }, server, id: command.id }, command.lastSeq);
    return checked.flatMap(({ id, isQuiet }) => (isQuiet ? [id] : []));
  };
};

export type Idleness = ReturnType<typeof createIdleness>;
