import { CodeBoxError } from '#contract';
import { newId } from '../../../postgres/id.ts';
import type { Background } from '../../../waiting/background.ts';
import type { BoxRow } from '../../store/box/boxes.ts';
import type { InstanceRow } from '../../store/box/instances.ts';
import type { Capacity } from '../../store/supply/capacity.ts';
import type { WaitingStore, Wanted } from '../../store/supply/waiting.ts';
import type { Instances } from './instances.ts';

export interface QueueOptions {
  waiting: WaitingStore;
  /** Where there is to be room. */
  site: string;
  background: Background;
  instances: Instances;
  ceiling: Capacity;
  /** How long a box may wait. */
  waitMs: number;
}

interface Ticket {
  admit: (instance: InstanceRow) => void;
  refuse: (error: CodeBoxError) => void;
  noRoom: () => void;
}

const askEveryMs = 100;
const retryMs = 1000;
const retryAfterSeconds = 5;

/**
 * Where boxes wait for room when all is taken: one queue for all gateways, in PostgreSQL, fair among tenants. Each gateway asks
 * for its own boxes, several times a second and whenever it knows of room.
 */
export const createQueue = (options: QueueOptions) => {
  const { waiting, site, background, instances, ceiling, waitMs } = options;
  const tickets = new Map<string, Ticket>();
  let timer: NodeJS.Timeout | undefined;
  let isAsking = false;
  let isWoken = false;
  let isClosed = false;

  const ask = async () => {
    const { admitted, evicted, missing } = await waiting.admit(site, [...tickets.keys()], ceiling, () => newId('i'));
    for (const { boxId, instance } of admitted) settle(boxId, (ticket) => ticket.admit(instance));
    for (const boxId of missing) settle(boxId, (ticket) => ticket.refuse(deleted()));
    for (const { id } of evicted) background.run('end a warm instance that gives way', () => instances.destroy(id));
  };

  const settle = (boxId: string, how: (ticket: Ticket) => void) => {
    const ticket = tickets.get(boxId);
    tickets.delete(boxId);
    if (ticket) how(ticket);
  };

  /** Asks now, and again as long as somebody waits here. */
  const wake = () => {
    isWoken = true;
    if (isAsking || tickets.size === 0) return;
    isAsking = true;
    clearTimeout(timer);
    background.run('ask for room', async () => {
      let hasAnswer = true;
      while (isWoken && hasAnswer && tickets.size > 0) {
        isWoken = false;
        hasAnswer = await background.attempt('ask for room', ask);
      }
      isAsking = false;
      // Without a database there is no room to be had.
      if (tickets.size > 0) timer = setTimeout(wake, hasAnswer ? askEveryMs : retryMs);
    });
  };

  const giveUp = async (boxId: string) => {
    // Whoever was admitted just now is told so by the question that is under way. Without a database nobody is.
    const hasLeft = await waiting.leave(boxId).catch(() => true);
    if (hasLeft) settle(boxId, (ticket) => ticket.noRoom());
  };
  const leave = (boxId: string) => background.run('leave the queue', () => giveUp(boxId));

  return {
    /** Tells of room: an instance is gone, or warm. */
    wake,

    /**
     * Waits for an instance of a box's own. Throws `unavailable` when the time is over, the queue is full or the gateway stops,
     * `gone` when the box is deleted meanwhile.
     */
    async wait(box: Pick<BoxRow, 'id' | 'tenantId' | 'limits'>, wanted: Wanted): Promise<InstanceRow> {
      if (waitMs === 0 || isClosed || !(await waiting.join(box, wanted, waitMs))) throw noRoom(box);
      const { promise, resolve, reject } = Promise.withResolvers<InstanceRow>();
      tickets.set(box.id, { admit: resolve, refuse: reject, noRoom: () => reject(noRoom(box)) });
      const deadline = setTimeout(() => leave(box.id), waitMs);
      if (isClosed) leave(box.id);
      wake();
      return await promise.finally(() => clearTimeout(deadline));
    },

    /** Refuses all that wait here: others may ask another gateway. */
    close(): void {
      isClosed = true;
      clearTimeout(timer);
      for (const boxId of tickets.keys()) leave(boxId);
    },
  };
};

export type Queue = ReturnType<typeof createQueue>;

const noRoom = ({ limits }: Pick<BoxRow, 'limits'>) =>
  new CodeBoxError(
    'unavailable',
    `All boxes of this deployment, or too much of their memory, are in use for one more with ${limits.memoryMb} MiB.`,
    { retryAfterSeconds },
  );

const deleted = () => new CodeBoxError('gone', 'The box was deleted before it was ready.');
