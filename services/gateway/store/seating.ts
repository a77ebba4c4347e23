/** A box in the queue, in the order of its turn. */
export interface Waiter {
  boxId: string;
  driver: string;
  template: string;
  /** Of the warm instances that would do; null when none would. */
  generation: string | null;
}

/** A warm instance, or one that is about to be warm. */
export interface PoolInstance {
  id: string;
  driver: string;
  template: string | null;
  generation: string | null;
}

export interface Room {
  /** How many more instances may be made. */
  free: number;
  /** How many are being destroyed: their places are free soon. */
  ending: number;
  /** The oldest first. */
  warm: readonly PoolInstance[];
  warming: readonly PoolInstance[];
}

export interface Seating<W extends Waiter> {
  /** Who goes on now, and with which warm instance; without one a new instance is made. */
  seated: { waiter: W; warmId: string | undefined }[];
  /** Warm instances that nobody who waits could use, and that have to give way to those who do. */
  evicted: string[];
}

/** Who of the queue goes on, strictly in its order, and which warm instances give way to the others. */
export const planSeating = <W extends Waiter>(queue: readonly W[], room: Room): Seating<W> => {
  const warm = [...room.warm];
  const warming = [...room.warming];
  const seated: Seating<W>['seated'] = [];
  let { free } = room;
  let unmet = 0;
  for (const waiter of queue) {
    const own = take(warm, waiter);
    if (own || free > 0) {
      seated.push({ waiter, warmId: own?.id });
      if (!own) free -= 1;
    } else if (!take(warming, waiter)) unmet += 1;
  }
  return { seated, evicted: warm.slice(0, Math.max(0, unmet - room.ending)).map(({ id }) => id) };
};

/** Takes the first that would do for a waiter out of the list. */
const take = (instances: PoolInstance[], { driver, template, generation }: Waiter): PoolInstance | undefined => {
  const at = instances.findIndex(
    (one) => one.driver === driver && one.template === template && one.generation === generation,
  );
  return at < 0 ? undefined : instances.splice(at, 1)[0];
};
