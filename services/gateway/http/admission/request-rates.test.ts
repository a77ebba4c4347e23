import { setImmediate as nextTurn } from 'node:timers/promises';
import type { Context } from 'hono';
import { expect, test } from 'vitest';
import type { Env } from '../env.ts';
import { createRequestRates } from './request-rates.ts';

const noQuotas = {
  boxes: null,
  concurrentExecutions: null,
  cpuSecondsPerDay: null,
  storageMb: null,
  templates: null,
  requestsPerMinute: null,
};

/** Leases as the database does: at most `limit` requests per minute. */
const leaseFrom = (state: { taken: number; leases: number }) => ({
  leaseRequests: async (_: string, count: number, limit: number) => {
    state.leases += 1;
    const granted = Math.max(0, Math.min(count, limit - state.taken));
    state.taken += granted;
    return { granted, taken: state.taken, endsInMs: 30_000 };
  },
});

const callerWith = (tenantId: string, requestsPerMinute: number) => ({
  tenantId,
  quotas: { ...noQuotas, requestsPerMinute },
});

const countAdmitted = async (rates: ReturnType<typeof createRequestRates>, limit: number, times: number) => {
  const c = { header: () => {} } as unknown as Context<Env>;
  const results = await Promise.allSettled(Array.from({ length: times }, () => rates.count(c, callerWith('t', limit))));
  return results.filter(({ status }) => status === 'fulfilled').length;
};

test('concurrent requests take leases one after the other, a twentieth of the limit each', async () => {
  const state = { taken: 0, leases: 0 };
  const rates = createRequestRates(leaseFrom(state));
  expect(await countAdmitted(rates, 100, 250)).toBe(100);
  expect(state).toEqual({ taken: 100, leases: 20 });
  expect(await countAdmitted(rates, 100, 50)).toBe(0);
  expect(state.leases).toBe(20);
});

test('the count restarts each minute, and a changed limit applies at once', async () => {
  const state = { taken: 0, leases: 0 };
  let now = 0;
  const rates = createRequestRates(leaseFrom(state), () => now);
  expect(await countAdmitted(rates, 10, 20)).toBe(10);
  expect(await countAdmitted(rates, 5, 5)).toBe(0);
  expect(await countAdmitted(rates, 0, 5)).toBe(0);
  expect(await countAdmitted(rates, 30, 5)).toBe(5);
  now = 30_000;
  state.taken = 0;
  expect(await countAdmitted(rates, 10, 20)).toBe(10);
});

test('refusals of one tenant are serialized, and do not delay another tenant', async () => {
  const rates = createRequestRates(leaseFrom({ taken: 0, leases: 0 }));
  const c = { header: () => {} } as unknown as Context<Env>;
  const refused = { count: 0 };
  const refusals = Array.from({ length: 50 }, () =>
    rates.count(c, callerWith('loud', 0)).catch(() => void refused.count++),
  );
  await rates.count(c, callerWith('calm', 100));
  await nextTurn();
  expect(refused.count).toBeLessThan(50);
  await Promise.all(refusals);
  expect(refused.count).toBe(50);
});
