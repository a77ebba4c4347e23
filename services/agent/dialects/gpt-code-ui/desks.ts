import type { Owner } from '../../chats/owner.ts';
import type { Result } from './results.ts';

/** What is kept of one person. */
interface Kept {
  /** Answers what waits to be polled, and forgets it. */
  drain(): Result[];
  /** Ends what is being answered. */
  settle(): Promise<void>;
}

export interface DesksOptions<Desk extends Kept> {
  /** Opens one; `onSize` is to be told by how many characters its results have grown or shrunk. */
  open: (onSize: (by: number) => void) => Desk;
  now?: () => number;
  /** Of the results of all, in characters. */
  maxSize?: number;
}

const maxDesks = 10_000;
const idleMs = 3_600_000;

/**
 * The desks of those who have used one within an hour; what is answered at one that is forgotten ends. Past `maxSize` the
 * results of those who have not come for longest are gone.
 */
export const createDesks = <Desk extends Kept>({
  open,
  now = () => performance.now(),
  maxSize = 256 * 1024 * 1024,
}: DesksOptions<Desk>) => {
  /** The one that was used last is last. */
  const desks = new Map<string, { desk: Desk; usedAt: number }>();
  let size = 0;

  const onSize = (by: number): void => {
    size += by;
    if (by <= 0) return;
    for (const { desk } of desks.values()) {
      if (size <= maxSize) return;
      desk.drain();
    }
  };

  const forget = (id: string, desk: Desk): void => {
    desks.delete(id);
    desk.drain();
    // Until it has ended it may still tell something.
    void desk.settle().then(() => desk.drain());
  };

  return {
    of({ tenant, user }: Pick<Owner, 'tenant' | 'user'>): Desk {
      const id = JSON.stringify([tenant, user]);
      const desk = desks.get(id)?.desk ?? open(onSize);
      desks.delete(id);
      desks.set(id, { desk, usedAt: now() });
      for (const [other, { desk: oldest, usedAt }] of desks) {
        if (desks.size <= maxDesks && now() - usedAt <= idleMs) break;
        forget(other, oldest);
      }
      return desk;
    },
  };
};
