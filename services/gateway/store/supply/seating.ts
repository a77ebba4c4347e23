import { type Capacity, holds } from './capacity.ts';

/** A box in the queue, in the order of its turn. */
export interface Waiter {
  boxId: string;
  tenantId: string;
  site: string;
  template: string;
  /** Of the warm instances that would do; null when none would. */
  generation: string | null;
  memoryMb: number;
  /** Whether it would fit if no other tenant had any box. */
  couldFit: boolean;
  /** Whether it has waited for so long that it lets nobody pass any more. */
  isPressing: boolean;
}

/** A warm instance, or one that is about to be warm. */
export interface PoolInstance {
  id: string;
  site: string;
  template: string | null;
  generation: string | null;
  memoryMb: number;
}

export interface Room {
  /** What all may take together. */
  ceiling: Capacity;
  free: Capacity;
  /** What is taken by instances that are being destroyed: it is free soon. */
  ending: Capacity;
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

/**
 * Who of the queue goes on, and which warm instances give way to the others. In the order of the queue, but a box for which there
 * is too little memory lets smaller ones of other tenants pass, of its own none; once it is pressing, nobody: what becomes free is
 * kept for it until it fits or its wait is over. One for which its own tenant has to make room keeps only that tenant waiting. A warm
 * instance that asks for nothing more goes to whoever can use it.
 */
export const planSeating = <W extends Waiter>(queue: readonly W[], room: Room): Seating<W> => {
  const [warm, warming] = [[...room.warm], [...room.warming]];
  const free = { ...room.free };
  const nothing: Capacity = { instances: 0, memoryMb: 0 };
  const seated: Seating<W>['seated'] = [];
  const unmet: W[] = [];
  const stuckTenants = new Set<string>();
  const crowdedTenants = new Set<string>();
  let isKept = false;
  for (const waiter of queue) {
    const mine = isKept || stuckTenants.has(waiter.tenantId) ? nothing : free;
    const own = take(warm, waiter, mine.memoryMb);
    if (own || holds(mine, waiter.memoryMb)) {
      seated.push({ waiter, warmId: own?.id });
      free.memoryMb -= waiter.memoryMb - (own?.memoryMb ?? 0);
      if (!own) free.instances -= 1;
      continue;
    }
    // One that can never be had keeps nobody waiting.
    if (waiter.memoryMb > room.ceiling.memoryMb || take(warming, waiter, mine.memoryMb)) continue;
    stuckTenants.add(waiter.tenantId);
    if (!waiter.couldFit) crowdedTenants.add(waiter.tenantId);
    if (crowdedTenants.has(waiter.tenantId)) continue;
    unmet.push(waiter);
    isKept ||= waiter.isPressing;
  }
  return { seated, evicted: evict(unmet, warm, { free, ending: room.ending }).map(({ id }) => id) };
};

/** Takes the first that would do for a waiter, with at most `moreMb` of memory beside its own, out of the list. */
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

/** The oldest warm instances without which those who wait will fit, where that is enough for them. */
const evict = (unmet: readonly Waiter[], warm: PoolInstance[], { free, ending }: Pick<Room, 'free' | 'ending'>) => {
  const soon = { instances: free.instances + ending.instances, memoryMb: free.memoryMb + ending.memoryMb };
  const evicted: PoolInstance[] = [];
  for (const { memoryMb, isPressing } of unmet) {
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
    } else if (isPressing) break;
  }
  return evicted;
};
