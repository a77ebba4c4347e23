import { expect, test } from 'vitest';
import { type PoolInstance, planSeating, type Room, type Waiter } from './seating.ts';

const pool = { site: 'none', template: 'python', generation: 'now' };
const warm = (id: string, memoryMb = 1000): PoolInstance => ({ id, ...pool, memoryMb });
/** Waits for a new instance unless `generation` says that a warm one would do. */
const waiter = (boxId: string, memoryMb: number, more: Partial<Waiter> = {}): Waiter => ({
  ...pool,
  generation: null,
  boxId,
  tenantId: boxId,
  memoryMb,
  couldFit: true,
  isPressing: false,
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
  const { seated, evicted } = planSeating(queue, given);
  return { seated: seated.map(({ waiter, warmId }) => [waiter.boxId, ...(warmId ? [warmId] : [])].join(' ')), evicted };
};

test('boxes go on in their order as far as the memory goes', () => {
  const queue = [waiter('a', 1000), waiter('b', 1500), waiter('c', 1000)];
  expect(plan(queue, room(2500)).seated).toEqual(['a', 'b']);
  expect(plan(queue, room(3500)).seated).toEqual(['a', 'b', 'c']);
});

test('one that is too large lets other tenants pass, of its own none, and nobody once it is pressing', () => {
  const rest = [waiter('own', 500, { tenantId: 'large' }), waiter('other', 500)];
  expect(plan([waiter('large', 4000), ...rest], room(2000)).seated).toEqual(['other']);
  expect(plan([waiter('large', 4000, { isPressing: true }), ...rest], room(2000)).seated).toEqual([]);
  expect(plan([waiter('large', 4000, { isPressing: true }), ...rest], room(5000)).seated).toHaveLength(3);
});

test('one that its own tenant has to make room for keeps no other one waiting', () => {
  const large = waiter('large', 3000, { couldFit: false, isPressing: true });
  const rest = [waiter('own', 500, { tenantId: 'large', isPressing: true }), waiter('other', 500)];
  expect(plan([large, ...rest], room(2000, { warm: [warm('w1')] }))).toEqual({ seated: ['other'], evicted: [] });
});

test('one that can never be had keeps nobody waiting', () => {
  const never = waiter('never', 20_000, { isPressing: true, couldFit: false });
  const given = room(2000, { warm: [warm('w1')] });
  expect(plan([never, waiter('own', 500, { tenantId: 'never' })], given)).toEqual({ seated: ['own'], evicted: [] });
});

test('a warm instance costs a box the difference, and nothing when it is not larger', () => {
  const more = waiter('more', 1600, pool);
  const same = waiter('same', 1000, pool);
  const warmTwo = { warm: [warm('w1'), warm('w2')] };
  expect(plan([more, same], room(600, warmTwo)).seated).toEqual(['more w1', 'same w2']);
  expect(plan([more, same], room(500, { warm: [warm('w1')] })).seated).toEqual(['same w1']);
  // It is pressing, and takes nothing from the others that it could use.
  const kept = [{ ...more, isPressing: true }, same];
  expect(plan(kept, room(500, { warm: [warm('w1')] })).seated).toEqual(['same w1']);
});

test('warm instances give way where that is enough, and as many as are needed', () => {
  const three = { warm: [warm('w1'), warm('w2'), warm('w3')] };
  expect(plan([waiter('a', 2500)], room(600, three))).toEqual({ seated: [], evicted: ['w1', 'w2'] });
  const ending = { instances: 1, memoryMb: 1000 };
  expect(plan([waiter('a', 2500)], room(600, { ...three, ending }))).toEqual({ seated: [], evicted: ['w1'] });
  expect(plan([waiter('a', 6000)], room(600, three))).toEqual({ seated: [], evicted: [] });
  expect(plan([waiter('a', 6000), waiter('b', 1500)], room(600, three)).evicted).toEqual(['w1']);
  const pressing = waiter('a', 6000, { isPressing: true });
  expect(plan([pressing, waiter('b', 1500)], room(600, three)).evicted).toEqual([]);
  const full = room(8000, { ...three, free: { instances: 0, memoryMb: 8000 } });
  expect(plan([waiter('a', 100), waiter('b', 100)], full).evicted).toEqual(['w1', 'w2']);
});
