import { CodeBoxError } from '#contract';
import { newId } from '../../../postgres/id.ts';
import type { Background } from '../../../waiting/background.ts';
import type { Notice } from '../../../waiting/notice.ts';
import type { BoxRow } from '../../store/box/boxes.ts';
import type { InstanceRow } from '../../store/box/instances.ts';
import type { Capacity } from '../../store/supply/capacity.ts';
import type { WaitingStore, Wanted } from '../../store/supply/waiting.ts';
import type { Instances } from './instances.ts';

export interface QueueOptions {
  waiting: WaitingStore;
  /** The site whose room boxes wait for. */
  site: string;
  background: Background;
  instances: Instances;
  /** Published when an instance is gone or warm. */
  room: Pick<Notice, 'subscribe'>;
  ceiling: Capacity;
  /** How long a box may wait. */
  waitMs: number;
}

interface Waiter {
  admit: (instance: InstanceRow) => void;
  refuse: (error: CodeBoxError) => void;
  giveUp: () => void;
}

const pollMs = 100;
const retryMs = 1000;
const retryAfterSeconds = 5;

/**
 * The queue of boxes that wait for room. All gateways share it in PostgreSQL, and it is fair among tenants. Each gateway polls for its
 * own boxes, several times a second and whenever room is published.
 */
export const createQueue = (options: QueueOptions) => {
  const { waiting, site, background, instances, room, ceiling, waitMs } = options;
  const waiters = new Map<string, Waiter>();
  let timer: NodeJS.Timeout | undefined;
  let isPolling = false;
  let isPollDue = false;
  let isClosed = false;

  const poll = async () => {
    const { admitted, evicted, missing } = await waiting.admit(site, [...waiters.keys()], ceiling, () => newId('i'));
    for (const { boxId, instance } of admitted) settle(boxId, (waiter) => waiter.admit(instance));
    for (const boxId of missing) settle(boxId, (waiter) => waiter.refuse(deletedError()));
    for (const { id } of evicted) background.run('end a warm instance that gives way', () => instances.destroy(id));
  };

  const settle = (boxId: string, how: (waiter: Waiter) => void) => {
    const waiter = waiters.get(boxId);
    waiters.delete(boxId);
    if (waiter) how(waiter);
  };

  /** Polls now, and again as long as a box waits here. */
  const wake = () => {
    isPollDue = true;
    if (isPolling || waiters.size === 0) return;
    isPolling = true;
    clearTimeout(timer);
    background.run('ask for room', async () => {
      let hasSucceeded = true;
      while (isPollDue && hasSucceeded && waiters.size > 0) {
        isPollDue = false;
        hasSucceeded = await background.attempt('ask for room', poll);
      }
      isPolling = false;
      // While the database is away there is no room to find.
      if (waiters.size > 0) timer = setTimeout(wake, hasSucceeded ? pollMs : retryMs);
    });
  };
  room.subscribe(wake);

  const giveUp = async (boxId: string) => {
    // A poll under way may have admitted the box already: then it settles the waiter. While the database is away nobody is admitted.
    const hasLeft = await waiting.leave(boxId).catch(() => true);
    if (hasLeft) settle(boxId, (waiter) => waiter.giveUp());
  };
  const leave = (boxId: string) => background.run('leave the queue', () => giveUp(boxId));

  return {
    /**
     * Waits for the instance of a box. Throws `unavailable` when the time is over, the queue is full or the gateway stops, `gone` when
     * the box is deleted meanwhile.
     */
    async wait(box: Pick<BoxRow, 'id' | 'tenantId' | 'limits'>, wanted: Wanted): Promise<InstanceRow> {
      if (waitMs === 0 || isClosed || !(await waiting.join(box, wanted, waitMs))) throw noRoomError(box);
      const { promise, resolve, reject } = Promise.withResolvers<InstanceRow>();
      waiters.set(box.id, { admit: resolve, refuse: reject, giveUp: () => reject(noRoomError(box)) });
      const deadline = setTimeout(() => leave(box.id), waitMs);
      if (isClosed) leave(box.id);
      wake();
      return await promise.finally(() => clearTimeout(deadline));
    },

    /** Refuses all boxes that wait here: their clients may retry at another gateway. */
    close(): void {
      isClosed = true;
      clearTimeout(timer);
      for (const boxId of waiters.keys()) leave(boxId);
    },
  };
};

export type Queue = ReturnType<typeof createQueue>;

const noRoomError = ({ limits }: Pick<BoxRow, 'limits'>) =>
  new CodeBoxError(
    'unavailable',
    `All boxes of this deployment, or too much of their memory, are in use for one more with ${limits.memoryMb} MiB.`,
    { retryAfterSeconds },
  );

const deletedError = () => new CodeBoxError('gone', 'The box was deleted before it was ready.');
