import { setImmediate as nextTurn } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { createSharedJournals } from './shared-journals.ts';

interface Event {
  seq: number;
  type: string;
  text: string;
}

/** A journal in a box: `write` adds an event and notifies every connection. */
const createJournal = () => {
  const events: Event[] = [];
  const opened: { after: number; isOpen: boolean }[] = [];
  let news = Promise.withResolvers<void>();
  async function* from(after: number, signal: AbortSignal) {
    const connection = { after, isOpen: true };
    opened.push(connection);
    const left = new Promise<never>((_, cut) => signal.addEventListener('abort', () => cut(signal.reason)));
    left.catch(() => {});
    try {
      for (let seq = after; ; seq++) {
        while (seq >= events.length) {
          if (events.at(-1)?.type === 'done') return;
          await Promise.race([news.promise, left]);
        }
        yield events[seq];
      }
    } finally {
      connection.isOpen = false;
    }
  }
  return {
    opened,
    write(text: string, type = 'stdout') {
      events.push({ seq: events.length + 1, type, text });
      news.resolve();
      news = Promise.withResolvers();
    },
    journals: createSharedJournals(async (_, after, signal) => from(after, signal)),
  };
};

const seqsOf = async (events: AsyncIterable<unknown>): Promise<number[]> => {
  const seqs: number[] = [];
  for await (const value of events) {
    seqs.push((value as Event).seq);
    if ((value as Event).type === 'done') break;
  }
  return seqs;
};
const numbers = (from: number, to: number) => Array.from({ length: to - from + 1 }, (_, at) => from + at);

test('any number of readers share one connection, wherever they begin, and each gets all events in order', async () => {
  const { journals, opened, write } = createJournal();
  for (let n = 0; n < 20; n++) write('x');
  const reading = Array.from({ length: 600 }, async (_, n) => seqsOf(await journals.events('executions/a', n % 30)));
  for (let n = 0; n < 20; n++) {
    await nextTurn();
    write('x');
  }
  write('', 'done');
  for (const [n, seqs] of (await Promise.all(reading)).entries()) expect(seqs).toEqual(numbers((n % 30) + 1, 41));
  expect(opened).toHaveLength(1);
  await expect.poll(() => opened[0]?.isOpen).toBe(false);
});

test('readers that begin before the first one share a connection too', async () => {
  const { journals, opened, write } = createJournal();
  for (let n = 0; n < 20; n++) write('x');
  const reading = Array.from({ length: 600 }, async (_, n) =>
    seqsOf(await journals.events('executions/a', 2 - Math.min(n, 2))),
  );
  await nextTurn();
  write('', 'done');
  for (const [n, seqs] of (await Promise.all(reading)).entries()) expect(seqs).toEqual(numbers(3 - Math.min(n, 2), 21));
  expect(opened.map(({ after }) => after)).toEqual([2, 1, 0]);
});

test('a reader that is behind the buffer catches up alone, and one that leaves delays no other', async () => {
  const { journals, opened, write } = createJournal();
  const large = 'x'.repeat(100_000);
  for (let n = 0; n < 30; n++) write(large);
  const slow = await journals.events('executions/a', 0);
  expect((await slow.next()).value).toMatchObject({ seq: 1 });
  const leaver = new AbortController();
  const left = seqsOf(await journals.events('executions/a', 0, leaver.signal));
  const fast = seqsOf(await journals.events('executions/a', 0));
  const late = (async () => {
    while (opened.length < 1) await nextTurn();
    for (let n = 0; n < 100; n++) await nextTurn();
    return seqsOf(await journals.events('executions/a', 5));
  })();
  for (let n = 0; n < 200; n++) await nextTurn();
  leaver.abort();
  await expect(left).rejects.toThrow('aborted');
  write('', 'done');
  expect(await fast).toEqual(numbers(1, 31));
  expect(await late).toEqual(numbers(6, 31));
  expect(await seqsOf(slow)).toEqual(numbers(2, 31));
  expect(opened.length).toBeLessThanOrEqual(4);
  await expect.poll(() => opened.some(({ isOpen }) => isOpen)).toBe(false);
});

test('the connection is closed when all readers have left, and the next reader opens a new one', async () => {
  const { journals, opened, write } = createJournal();
  write('x');
  const leave = new AbortController();
  const events = await journals.events('executions/a', 0, leave.signal);
  expect((await events.next()).value).toMatchObject({ seq: 1 });
  const waiting = events.next();
  leave.abort();
  await expect(waiting).rejects.toThrow('aborted');
  await expect.poll(() => opened[0]?.isOpen).toBe(false);
  write('', 'done');
  expect(await seqsOf(await journals.events('executions/a', 1))).toEqual([2]);
  expect(opened.map(({ after }) => after)).toEqual([0, 1]);
});

test('all buffers together are bounded, and those whose readers have left take no room', async () => {
  const large = 'x'.repeat(250_000);
  /** Opens a journal, and reads all of its events but the end. */
  const fill = async () => {
    const { journals, opened, write } = createJournal();
    for (let n = 0; n < 4; n++) write(large);
    const leave = new AbortController();
    const events = await journals.events('executions/a', 0, leave.signal);
    for (let n = 0; n < 4; n++) await events.next();
    const left = events.next();
    left.catch(() => {});
    return {
      opened,
      /** Begins again, as another reader. */
      join: async () => (await journals.events('executions/a', 0)).next(),
      leave: async () => {
        leave.abort();
        await expect(left).rejects.toThrow('aborted');
      },
    };
  };
  const few = await fill();
  expect((await few.join()).value).toMatchObject({ seq: 1 });
  expect(few.opened.map(({ after }) => after)).toEqual([0]);
  const many = await Promise.all(Array.from({ length: 80 }, fill));
  const beyond = await fill();
  expect((await beyond.join()).value).toMatchObject({ seq: 1 });
  expect(beyond.opened.map(({ after }) => after)).toEqual([0, 0]);
  await Promise.all(many.map(({ leave }) => leave()));
  const later = await fill();
  expect((await later.join()).value).toMatchObject({ seq: 1 });
  expect(later.opened.map(({ after }) => after)).toEqual([0]);
});
