import { expect, test } from 'vitest';
import type { NewEvent, StoredEvent } from '../messages/stored-event.ts';
import { createAnswerLog } from './answer-log.ts';

const start: NewEvent = { type: 'start', chat: 'c', message: 'm', question: 'q', title: null, model: null };
const text = (text: string): NewEvent => ({ type: 'text', text });
const done: NewEvent = { type: 'done', status: 'ok', content: '', files: [], tokens: null, rounds: 1 };
const never = new AbortController().signal;

const collect = async (events: AsyncIterable<StoredEvent>): Promise<StoredEvent[]> => {
  const all: StoredEvent[] = [];
  for await (const event of events) all.push(event);
  return all;
};

test('followers receive every event once, in order, whenever they join', async () => {
  const log = createAnswerLog(() => []);
  const early = collect(log.follow(0, never));
  log.add(start);
  log.add(text('a'));
  const late = collect(log.follow(1, never));
  await new Promise(setImmediate);
  log.add(text('b'));
  log.add(done);
  expect((await early).map(({ seq, type }) => [seq, type])).toEqual([
    [1, 'start'],
    [2, 'text'],
    [3, 'text'],
    [4, 'done'],
  ]);
  expect((await late).map(({ seq }) => seq)).toEqual([2, 3, 4]);
  expect(await collect(log.follow(4, never))).toEqual([]);
});

test('a follower with an unknown number receives everything', async () => {
  const log = createAnswerLog(() => []);
  log.add(start);
  log.add(done);
  expect((await collect(log.follow(99, never))).map(({ seq }) => seq)).toEqual([1, 2]);
});

test('too many events are replaced by fewer, with numbers that continue', async () => {
  const long = 'x'.repeat(300_000);
  let written = '';
  const log = createAnswerLog(() => [start, text(written)]);
  const early = collect(log.follow(0, never));
  log.add(start);
  for (let i = 0; i < 10; i++) {
    written += long;
    log.add(text(long));
    await new Promise(setImmediate);
  }
  log.add(done);
  const seen = await early;
  expect(seen.map(({ seq }) => seq)).toEqual(seen.map((_, index) => index + 1));
  const again = seen.map(({ type }) => type).lastIndexOf('start');
  expect(again).toBeGreaterThan(0);
  const rest = seen.slice(again).map((event) => (event.type === 'text' ? event.text : ''));
  expect(rest.join('')).toHaveLength(10 * long.length);
  // Anyone who joins later, with an older number or none, begins there too.
  for (const after of [0, 2]) expect((await collect(log.follow(after, never)))[0]).toEqual(seen[again]);
});

test('a follower that leaves is released', async () => {
  const log = createAnswerLog(() => []);
  log.add(start);
  const leave = new AbortController();
  const events = collect(log.follow(0, leave.signal));
  leave.abort();
  expect((await events).length).toBe(1);
});
