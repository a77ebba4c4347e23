import { expect, test } from 'vitest';
import { type PoolInstance, planPlacement, type Room, type Waiter } from './placement.ts';

const pool = { site: 'none', template: 'python', generation: 'now' };
const warm = (id: string, memoryMb = 1000): PoolInstance => ({ id, ...pool, memoryMb });
/** A waiter for a new instance, or for a warm one if `generation` is set. */
const waiter = (boxId: string, memoryMb: number, more: Partial<Waiter> = {}): Waiter => ({
  ...pool,
  generation: null,
  boxId,
  tenantId: boxId,
  memoryMb,
  couldFit: true,
  isUrgent: false,
  ...more,
});
const room = (memoryMb: number, more: Partial<Room> = {}): Room => ({
  ceiling: { instances: 10, memoryMb: 10_000 },
  free: { instances: 5, memoryMb },
  ending: { instances: 0, memoryMb: 0 },
  warm: [],
  warming: [],
  ...more,
});
const plan = (queue: Waiter[], given: Room) => {
  const { placed, evicted } = planPlacement(queue, given);
  return { placed: placed.map(({ waiter, warmId }) => [waiter.boxId, ...(warmId ? [warmId] : [])].join(' ')), evicted };
};

test('boxes are admitted in order as far as the memory suffices', () => {
  const queue = [waiter('a', 1000), waiter('b', 1500), waiter('c', 1000)];
  expect(plan(queue, room(2500)).placed).toEqual(['a', 'b']);
  expect(plan(queue, room(3500)).placed).toEqual(['a', 'b', 'c']);
});

test('a box that does not fit can be overtaken by other tenants, but not by its own, and by none once it is urgent', () => {
  const rest = [waiter('own', 500, { tenantId: 'large' }), waiter('other', 500)];
  expect(plan([waiter('large', 4000), ...rest], room(2000)).placed).toEqual(['other']);
  expect(plan([waiter('large', 4000, { isUrgent: true }), ...rest], room(2000)).placed).toEqual([]);
  expect(plan([waiter('large', 4000, { isUrgent: true }), ...rest], room(5000)).placed).toHaveLength(3);
});

test('a box that its own tenant blocks delays no other tenant', () => {
  const large = waiter('large', 3000, { couldFit: false, isUrgent: true });
  const rest = [waiter('own', 500, { tenantId: 'large', isUrgent: true }), waiter('other', 500)];
  expect(plan([large, ...rest], room(2000, { warm: [warm('w1')] }))).toEqual({ placed: ['other'], evicted: [] });
});

test('a box that can never fit delays no other', () => {
  const never = waiter('never', 20_000, { isUrgent: true, couldFit: false });
  const given = room(2000, { warm: [warm('w1')] });
  expect(plan([never, waiter('own', 500, { tenantId: 'never' })], given)).toEqual({ placed: ['own'], evicted: [] });
});

test('a warm instance costs only the additional memory of its box', () => {
  const more = waiter('more', 1600, pool);
  const same = waiter('same', 1000, pool);
  const warmTwo = { warm: [warm('w1'), warm('w2')] };
  expect(plan([more, same], room(600, warmTwo)).placed).toEqual(['more w1', 'same w2']);
  expect(plan([more, same], room(500, { warm: [warm('w1')] })).placed).toEqual(['same w1']);
  // An urgent box does not reserve warm instances that others could use.
  const kept = [{ ...more, isUrgent: true }, same];
  expect(plan(kept, room(500, { warm: [warm('w1')] })).placed).toEqual(['same w1']);
});

test('warm instances are evicted only if that suffices, and no more than needed', () => {
  const three = { warm: [warm('w1'), warm('w2'), warm('w3')] };
  expect(plan([waiter('a', 2500)], room(600, three))).toEqual({ placed: [], evicted: ['w1', 'w2'] });
  const ending = { instances: 1, memoryMb: 1000 };
  expect(plan([waiter('a', 2500)], room(600, { ...three, ending }))).toEqual({ placed: [], evicted: ['w1'] });
  expect(plan([waiter('a', 6000)], room(600, three))).toEqual({ placed: [], evicted: [] });
  expect(plan([waiter('a', 6000), waiter('b', 1500)], room(600, three)).evicted).toEqual(['w1']);
  const pressing = waiter('a', 6000, { isUrgent: true });
  expect(plan([pressing, waiter('b', 1500)], room(600, three)).evicted).toEqual([]);
  const full = room(8000, { ...three, free: { instances: 0, memoryMb: 8000 } });
  expect(plan([waiter('a', 100), waiter('b', 100)], full).evicted).toEqual(['w1', 'w2']);
});
