import { getEventListeners } from 'node:events';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { Hono } from 'hono';
import { expect, test } from 'vitest';
import { streamEvents } from '../bodies/stream.ts';
import type { HttpEnv } from '../env.ts';
import { refuseBeforeLeaving } from './leaving.ts';

const collectGarbage = () => {
  setFlagsFromString('--expose-gc');
  runInNewContext('gc')();
};

async function* events(until: Promise<void>) {
  await until;
  yield { seq: 1, type: 'done' as const };
}

/** Yields all events at once, and then stays open; `refs` show which of them are retained. */
async function* many(count: number, refs: WeakRef<object>[]) {
  for (let seq = 1; seq <= count; seq++) {
    const event = { seq, type: 'done' as const };
    refs.push(new WeakRef(event));
    yield event;
  }
  await new Promise(() => {});
}

test('an open stream does not retain the events that it has sent', async () => {
  const refs: WeakRef<object>[] = [];
  const [leave, stopping] = [new AbortController(), new AbortController().signal];
  const app = new Hono<HttpEnv>();
  app.get('/stream', (c) =>
    streamEvents(c, { format: 'ndjson', events: many(500, refs), leave, stopping, onError: () => {} }),
  );
  const reader = (await app.request('/stream')).body?.getReader();
  for (let read = 0; read < 500; read++) await reader?.read();
  // The target of a new WeakRef is kept alive until the end of the turn.
  await nextTurn();
  collectGarbage();
  await nextTurn();
  collectGarbage();
  expect(refs.length).toBe(500);
  expect(refs.filter((ref) => ref.deref() !== undefined).length).toBeLessThan(10);
  // The cancellation is not awaited, because the source never ends.
  void reader?.cancel();
});

test('completed requests and streams leave no listeners on the shutdown signals', async () => {
  const [stopping, leaving] = [new AbortController().signal, new AbortController().signal];
  const { promise: go, resolve } = Promise.withResolvers<void>();
  const app = new Hono<HttpEnv>();
  app.use(refuseBeforeLeaving({ stopping, leaving }));
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
  const responses = Array.from({ length: 100 }, (_, n) => app.request(n % 2 ? '/whole' : '/stream'));
  // The stream of a HEAD request is neither read nor cancelled.
  responses.push(app.request('/stream', { method: 'HEAD' }));
  // The garbage collector runs while the requests wait.
  await nextTurn();
  expect(getEventListeners(leaving, 'abort').length).toBeGreaterThan(40);
  expect(getEventListeners(stopping, 'abort').length).toBeGreaterThan(40);
  collectGarbage();
  await nextTurn();
  collectGarbage();
  resolve();
  for (const response of responses) await (await response).text();
  expect(getEventListeners(leaving, 'abort')).toEqual([]);
  expect(getEventListeners(stopping, 'abort')).toEqual([]);
});
