import { type Capacity, holds } from './capacity.ts';

/** A box in the queue. */
export interface Waiter {
  boxId: string;
  tenantId: string;
  site: string;
  template: string;
  /** The generation of the warm instances that fit the box; null when none would. */
  generation: string | null;
  memoryMb: number;
  /** Whether the box would fit if no other tenant had any box. */
  couldFit: boolean;
  /** Whether the box has waited for so long that no other may pass it. */
  isUrgent: boolean;
}

/** A warm instance, or one that will be warm soon. */
export interface PoolInstance {
  id: string;
  site: string;
  template: string | null;
  generation: string | null;
  memoryMb: number;
}

export interface Room {
  /** The most capacity that all instances may use. */
  ceiling: Capacity;
  free: Capacity;
  /** The capacity of instances that are being destroyed: it will be free soon. */
  ending: Capacity;
  /** The oldest first. */
  warm: readonly PoolInstance[];
  warming: readonly PoolInstance[];
}

export interface Placement<W extends Waiter> {
  /** The boxes that get an instance now: this warm one, or a new one without `warmId`. */
  placed: { waiter: W; warmId: string | undefined }[];
  /** Warm instances that no waiting box can use, destroyed to make room for those that wait. */
  evicted: string[];
}

/**
 * Decides which waiting boxes get an instance, and which warm instances are evicted for the others. The order is that of the queue, except
 * that a box that does not fit lets smaller boxes of other tenants pass, but none of its own tenant. Once the box is urgent nobody passes:
 * capacity that becomes free is kept for it until it fits or its wait ends. A box that fits only when its own tenant frees capacity delays
 * that tenant alone. A warm instance that needs no additional memory goes to the first box that can use it.
 */
export const planPlacement = <W extends Waiter>(queue: readonly W[], room: Room): Placement<W> => {
  const [warm, warming] = [[...room.warm], [...room.warming]];
  const free = { ...room.free };
  const nothing: Capacity = { instances: 0, memoryMb: 0 };
  const placed: Placement<W>['placed'] = [];
  const unmet: W[] = [];
  const stuckTenants = new Set<string>();
  const crowdedTenants = new Set<string>();
  let isReserved = false;
  for (const waiter of queue) {
    const usable = isReserved || stuckTenants.has(waiter.tenantId) ? nothing : free;
    const own = take(warm, waiter, usable.memoryMb);
    if (own || holds(usable, waiter.memoryMb)) {
      placed.push({ waiter, warmId: own?.id });
      free.memoryMb -= waiter.memoryMb - (own?.memoryMb ?? 0);
      if (!own) free.instances -= 1;
      continue;
    }
    // A box above the ceiling can never be placed, so it must not delay others.
    if (waiter.memoryMb > room.ceiling.memoryMb || take(warming, waiter, usable.memoryMb)) continue;
    stuckTenants.add(waiter.tenantId);
    if (!waiter.couldFit) crowdedTenants.add(waiter.tenantId);
    if (crowdedTenants.has(waiter.tenantId)) continue;
    unmet.push(waiter);
    isReserved ||= waiter.isUrgent;
  }
  return { placed, evicted: evict(unmet, warm, { free, ending: room.ending }).map(({ id }) => id) };
};

/** Removes the first instance from the list that fits the waiter with at most `moreMb` of additional memory, and returns it. */
const take = (instances: PoolInstance[], waiter: Waiter, moreMb: number): PoolInstance | undefined => {
  const { site, template, generation, memoryMb } = waiter;
  const at = instances.findIndex(
    (one) =>
      one.site === site &&
      one.template === template &&
      one.generation === generation &&
      memoryMb - one.memoryMb <= Math.max(0, moreMb),
  );
  return at < 0 ? undefined : instances.splice(at, 1)[0];
};

/** Chooses the oldest warm instances to evict for the waiting boxes; none for a box that would still not fit. */
const evict = (unmet: readonly Waiter[], warm: PoolInstance[], { free, ending }: Pick<Room, 'free' | 'ending'>) => {
  const soon = { instances: free.instances + ending.instances, memoryMb: free.memoryMb + ending.memoryMb };
  const evicted: PoolInstance[] = [];
  for (const { memoryMb, isUrgent } of unmet) {
    let enough = 0;
    const freed = { ...soon };
    while (!holds(freed, memoryMb) && enough < warm.length) {
      freed.instances += 1;
      freed.memoryMb += warm[enough]?.memoryMb ?? 0;
      enough += 1;
    }
    if (holds(freed, memoryMb)) {
      evicted.push(...warm.splice(0, enough));
      soon.instances = freed.instances - 1;
      soon.memoryMb = freed.memoryMb - memoryMb;
    } else if (isUrgent) break;
  }
  return evicted;
};
