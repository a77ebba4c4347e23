import { getEventListeners } from 'node:events';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { Hono } from 'hono';
import { expect, test } from 'vitest';
import type { HttpEnv } from './env.ts';
import { answerBeforeLeaving } from './leaving.ts';
import { streamEvents } from './stream.ts';

const collectGarbage = () => {
  setFlagsFromString('--expose-gc');
  runInNewContext('gc')();
};

async function* events(until: Promise<void>) {
  await until;
  yield { seq: 1, type: 'done' as const };
}

/** All events at once; `refs` tell which of them are kept. The stream stays open behind them. */
async function* many(count: number, refs: WeakRef<object>[]) {
  for (let seq = 1; seq <= count; seq++) {
    const event = { seq, type: 'done' as const };
    refs.push(new WeakRef(event));
    yield event;
  }
  await new Promise(() => {});
}

test('an open stream keeps nothing of the events that it has sent', async () => {
  const refs: WeakRef<object>[] = [];
  const [leave, stopping] = [new AbortController(), new AbortController().signal];
  const app = new Hono<HttpEnv>();
  app.get('/stream', (c) =>
    streamEvents(c, { format: 'ndjson', events: many(500, refs), leave, stopping, onError: () => {} }),
  );
  const reader = (await app.request('/stream')).body?.getReader();
  for (let read = 0; read < 500; read++) await reader?.read();
  // What a WeakRef has named lives to the end of its turn.
  await nextTurn();
  collectGarbage();
  await nextTurn();
  collectGarbage();
  expect(refs.length).toBe(500);
  expect(refs.filter((ref) => ref.deref() !== undefined).length).toBeLessThan(10);
  // Not awaited: its source is one that never ends.
  void reader?.cancel();
});

test('requests and streams that are over leave nothing at what tells of the end of the gateway', async () => {
  const [stopping, leaving] = [new AbortController().signal, new AbortController().signal];
  const { promise: go, resolve } = Promise.withResolvers<void>();
  const app = new Hono<HttpEnv>();
  app.use(answerBeforeLeaving({ stopping, leaving }));
  app.get('/whole', async (c) => go.then(() => c.text('ok')));
  app.get('/stream', (c) =>
    streamEvents(c, {
      format: 'ndjson',
      events: events(go),
      leave: new AbortController(),
      stopping,
      onError: () => {},
    }),
  );
  const asked = Array.from({ length: 100 }, (_, n) => app.request(n % 2 ? '/whole' : '/stream'));
  // Nobody reads, or leaves, the stream behind the head of one.
  asked.push(app.request('/stream', { method: 'HEAD' }));
  // Long enough to be looked at by the garbage collector while they wait.
  await nextTurn();
  expect(getEventListeners(leaving, 'abort').length).toBeGreaterThan(40);
  expect(getEventListeners(stopping, 'abort').length).toBeGreaterThan(40);
  collectGarbage();
  await nextTurn();
  collectGarbage();
  resolve();
  for (const answer of asked) await (await answer).text();
  expect(getEventListeners(leaving, 'abort')).toEqual([]);
  expect(getEventListeners(stopping, 'abort')).toEqual([]);
});
