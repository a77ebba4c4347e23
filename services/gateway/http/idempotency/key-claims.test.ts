import { expect, test } from 'vitest';
import { CodeBoxError } from '#contract';
import { createBackground } from '../../../waiting/background.ts';
import type { KeyClaim, KeyRecord, StoredResponse } from '../../store/idempotency.ts';
import type { Reference } from '../../store/reference.ts';
import { createKeyClaims } from './key-claims.ts';

const nothing = {
  status: null,
  body: null,
  bodyBytes: null,
  contentType: null,
  reference: null,
  mayHaveStarted: false,
};
const mebibyte = 1024 * 1024;

type Row = KeyRecord & Pick<StoredResponse, 'body'>;

/** Claims on an in-memory table of keys, which is down while `isAway` is true. */
const setUp = () => {
  const rows = new Map<string, Row>();
  const state = { isAway: false };
  const ifThere =
    <A extends unknown[], T>(work: (...args: A) => T) =>
    async (...args: A): Promise<T> => {
      if (state.isAway) throw new Error('wrapped', { cause: new CodeBoxError('unavailable', 'away') });
      return work(...args);
    };
  const change = ({ key, id }: KeyClaim, what: Partial<Row>): boolean => {
    const row = rows.get(key);
    if (row?.claimId === id) rows.set(key, { ...row, ...what });
    return row?.claimId === id;
  };
  const idempotency = {
    find: ifThere((_: string, key: string) => rows.get(key)),
    bodyOf: ifThere((_: string, key: string) => rows.get(key)?.body ?? null),
    claim: ifThere(({ key, id }: KeyClaim, requestHash: string) => {
      const known = rows.get(key);
      if (!known) rows.set(key, { ...nothing, requestHash, claimId: id, isOwn: true, isAbandoned: false });
      return known;
    }),
    takeOver: ifThere(({ key, id }: KeyClaim, known: KeyRecord) => {
      if (rows.get(key)?.claimId !== known.claimId) return false;
      rows.set(key, { ...known, ...nothing, claimId: id });
      return true;
    }),
    advance: ifThere((claim: KeyClaim, reference: Reference | undefined) => {
      change(claim, { mayHaveStarted: true, reference: reference ?? null });
    }),
    complete: ifThere((claim: KeyClaim, answer: StoredResponse) => {
      change(claim, { ...answer, bodyBytes: answer.body?.length ?? null });
    }),
    release: ifThere((claim: KeyClaim) => {
      if (change(claim, {})) rows.delete(claim.key);
    }),
  };
  const background = createBackground(() => {});
  const bounds = { hasRoom: async () => true, refusal: () => new Error('full'), noteResponse: () => {} };
  const claims = createKeyClaims({ idempotency, bounds: bounds as never, background });
  const isUnused = async (known: KeyRecord) => known.isAbandoned && !known.mayHaveStarted;
  const take = (key: string, isVoid = isUnused) => claims.take({ tenantId: 't', key, requestHash: 'h', isVoid });
  return { rows, state, take, background };
};

const answerOf = (bytes: number) => ({ status: 200, body: 'x'.repeat(bytes), contentType: null });

test('the outcome of a request during a database outage is written afterwards, and its key is in use until then', async () => {
  const { rows, state, take, background } = setUp();
  const [done, undone] = [await take('done'), await take('undone')];
  expect((await take('done')).known).toMatchObject({ status: null, isAbandoned: false });
  state.isAway = true;
  await Promise.all([done.claim?.complete(answerOf(1)), undone.claim?.release()]);
  await expect(take('done')).rejects.toThrow();
  expect([...rows.values()].map(({ status }) => status)).toEqual([null, null]);
  state.isAway = false;
  await background.drain(10_000);
  expect([...rows].map(([key, { status }]) => [key, status])).toEqual([['done', 200]]);
  expect((await take('undone')).claim).toBeDefined();
});

test('a repeat of the request before that writes the outcome', async () => {
  const { state, take } = setUp();
  const { claim } = await take('k');
  state.isAway = true;
  await claim?.complete(answerOf(1));
  state.isAway = false;
  expect((await take('k')).known).toMatchObject({ status: 200, body: 'x' });
});

test('the buffered outcomes are bounded: beyond the limit responses are dropped first, then the outcomes', async () => {
  const { rows, state, take, background } = setUp();
  const taken = await Promise.all(Array.from({ length: 10_001 }, (_, n) => take(`k${n}`)));
  await taken.at(-1)?.claim?.advance(undefined);
  state.isAway = true;
  for (const [n, { claim }] of taken.entries()) await claim?.complete(answerOf(n < 3 ? 6 * mebibyte : 0));
  state.isAway = false;
  await background.drain(10_000);
  const lengths = [0, 1, 2].map((n) => [rows.get(`k${n}`)?.status, rows.get(`k${n}`)?.body?.length]);
  expect(lengths).toEqual([
    [200, 6 * mebibyte],
    [200, 6 * mebibyte],
    [200, undefined],
  ]);
  expect((await take('k10000')).known).toMatchObject({ status: null, isAbandoned: true, mayHaveStarted: true });
});

test('buffered releases yield to the responses of others, and their keys become free', async () => {
  const { rows, state, take, background } = setUp();
  const [done, begun] = [await take('done'), await take('begun')];
  await begun.claim?.advance(undefined);
  const idle = await Promise.all(Array.from({ length: 5001 }, (_, n) => take(`idle${n}`)));
  state.isAway = true;
  for (const { claim } of idle) await claim?.release();
  for (let n = 0; n < 10_000; n++) await take(`new${n}`).catch(() => {});
  await Promise.all([begun.claim?.release(), done.claim?.complete(answerOf(1))]);
  state.isAway = false;
  await background.drain(10_000);
  expect([rows.get('done')?.status, rows.has('begun')]).toEqual([200, false]);
  for (const key of ['idle0', 'idle5000', 'new9999']) expect([key, (await take(key)).known]).toEqual([key, undefined]);
});

test('a key of this gateway without a request in progress is taken over by exactly one repeat', async () => {
  const { rows, take } = setUp();
  rows.set('k', { ...nothing, requestHash: 'h', claimId: 'lost', isOwn: true, isAbandoned: false });
  const all = await Promise.all(Array.from({ length: 5 }, () => take('k')));
  expect(all.filter(({ claim }) => claim)).toHaveLength(1);
  expect(all.filter(({ known }) => known?.isAbandoned)).toEqual([]);
});

test('a repeat while the key of a dead gateway changes hands does not get the record of the first request', async () => {
  const { rows, take } = setUp();
  const dead = { ...nothing, requestHash: 'h', claimId: 'dead', isOwn: false, isAbandoned: true };
  const refusal = { code: 'conflict', reason: 'key_in_use' };
  rows.set('elsewhere', dead);
  const outrun = take('elsewhere', async () => {
    rows.set('elsewhere', { ...dead, claimId: 'other', isAbandoned: false });
    return true;
  });
  await expect(outrun).rejects.toMatchObject(refusal);
  rows.set('here', dead);
  const { promise, resolve } = Promise.withResolvers<boolean>();
  const first = take('here', () => promise);
  await expect(take('here')).rejects.toMatchObject(refusal);
  resolve(true);
  expect((await first).claim).toBeDefined();
});
