import { expect, test } from 'vitest';
import { CodeBoxError } from '#contract';
import { createBackground } from '../../../waiting/background.ts';
import type { Answer, KeyClaim, StoredAnswer } from '../../store/idempotency.ts';
import { createKeyClaims } from './key-claims.ts';

const nothing = { status: null, body: null, contentType: null, location: null, mayHaveStarted: false };
const mebibyte = 1024 * 1024;

/** Claims on a table of keys in memory that can be away. */
const setUp = () => {
  const rows = new Map<string, StoredAnswer>();
  const state = { isAway: false };
  const ifThere =
    <A extends unknown[], T>(work: (...args: A) => T) =>
    async (...args: A): Promise<T> => {
      if (state.isAway) throw new Error('wrapped', { cause: new CodeBoxError('unavailable', 'away') });
      return work(...args);
    };
  const change = ({ key, id }: KeyClaim, what: Partial<StoredAnswer>): boolean => {
    const row = rows.get(key);
    if (row?.claimId === id) rows.set(key, { ...row, ...what });
    return row?.claimId === id;
  };
  const idempotency = {
    find: ifThere((_: string, key: string) => rows.get(key)),
    claim: ifThere(({ key, id }: KeyClaim, requestHash: string) => {
      const known = rows.get(key);
      if (!known) rows.set(key, { ...nothing, requestHash, claimId: id, isOwn: true, isAbandoned: false });
      return known;
    }),
    takeOver: ifThere(({ key, id }: KeyClaim, known: StoredAnswer) => {
      if (rows.get(key)?.claimId !== known.claimId) return false;
      rows.set(key, { ...known, ...nothing, claimId: id });
      return true;
    }),
    advance: ifThere((claim: KeyClaim, location: string | undefined) => {
      change(claim, { mayHaveStarted: true, location: location ?? null });
    }),
    complete: ifThere((claim: KeyClaim, answer: Answer) => {
      change(claim, answer);
    }),
    release: ifThere((claim: KeyClaim) => {
      if (change(claim, {})) rows.delete(claim.key);
    }),
  };
  const background = createBackground(() => {});
  const bounds = { hasRoom: async () => true, refusal: () => new Error('full'), noteAnswer: () => {} };
  const claims = createKeyClaims({ idempotency, bounds: bounds as never, background });
  const take = (key: string) =>
    claims.take({
      tenantId: 't',
      key,
      requestHash: 'h',
      isVoid: async (known) => known.isAbandoned && !known.mayHaveStarted,
    });
  return { rows, state, take, background };
};

const answerOf = (bytes: number) => ({ status: 200, body: 'x'.repeat(bytes), contentType: null });

test('how a request ended while the database was away is written when it is back, and its key is taken until then', async () => {
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

test('who asks again before that is written has it written', async () => {
  const { state, take } = setUp();
  const { claim } = await take('k');
  state.isAway = true;
  await claim?.complete(answerOf(1));
  state.isAway = false;
  expect((await take('k')).known).toMatchObject({ status: 200, body: 'x' });
});

test('what is kept meanwhile has a bound: past it an answer is not kept, then not even that there was one', async () => {
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

test('requests that came to nothing meanwhile leave room for the answers of others, and their keys free', async () => {
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

test('a key of this gateway that is in progress nowhere in it is taken over by one of those who ask for it', async () => {
  const { rows, take } = setUp();
  rows.set('k', { ...nothing, requestHash: 'h', claimId: 'lost', isOwn: true, isAbandoned: false });
  const all = await Promise.all(Array.from({ length: 5 }, () => take('k')));
  expect(all.filter(({ claim }) => claim)).toHaveLength(1);
  expect(all.filter(({ known }) => known?.isAbandoned)).toEqual([]);
});
