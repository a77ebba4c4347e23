import { getEventListeners } from 'node:events';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { Hono } from 'hono';
import { expect, test } from 'vitest';
import type { Env } from './env.ts';
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

test('requests and streams that are over leave nothing at what tells of the end of the gateway', async () => {
  const [stopping, leaving] = [new AbortController().signal, new AbortController().signal];
  const { promise: go, resolve } = Promise.withResolvers<void>();
  const app = new Hono<Env>();
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
