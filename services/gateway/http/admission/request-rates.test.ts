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
  requestsPerMinute: null,
};

/** What the database does: at most `limit` of a minute are set aside. */
const leaseFrom = (state: { taken: number; asked: number }) => ({
  leaseRequests: async (_: string, count: number, limit: number) => {
    state.asked += 1;
    const granted = Math.max(0, Math.min(count, limit - state.taken));
    state.taken += granted;
    return { granted, taken: state.taken, endsInMs: 30_000 };
  },
});

const callerWith = (tenantId: string, requestsPerMinute: number) => ({
  tenantId,
  quotas: { ...noQuotas, requestsPerMinute },
});

const letIn = async (rates: ReturnType<typeof createRequestRates>, limit: number, times: number) => {
  const c = { header: () => {} } as unknown as Context<Env>;
  const results = await Promise.allSettled(Array.from({ length: times }, () => rates.count(c, callerWith('t', limit))));
  return results.filter(({ status }) => status === 'fulfilled').length;
};

test('requests at once take one lease after the other, and the database is asked for one in twenty', async () => {
  const state = { taken: 0, asked: 0 };
  const rates = createRequestRates(leaseFrom(state));
  expect(await letIn(rates, 100, 250)).toBe(100);
  expect(state).toEqual({ taken: 100, asked: 20 });
  expect(await letIn(rates, 100, 50)).toBe(0);
  expect(state.asked).toBe(20);
});

test('a new minute begins anew, a limit that was changed holds at once', async () => {
  const state = { taken: 0, asked: 0 };
  let now = 0;
  const rates = createRequestRates(leaseFrom(state), () => now);
  expect(await letIn(rates, 10, 20)).toBe(10);
  expect(await letIn(rates, 5, 5)).toBe(0);
  expect(await letIn(rates, 0, 5)).toBe(0);
  expect(await letIn(rates, 30, 5)).toBe(5);
  now = 30_000;
  state.taken = 0;
  expect(await letIn(rates, 10, 20)).toBe(10);
});

test('refusals are told one after the other, and another tenant does not wait behind them', async () => {
  const rates = createRequestRates(leaseFrom({ taken: 0, asked: 0 }));
  const c = { header: () => {} } as unknown as Context<Env>;
  const told = { count: 0 };
  const refusals = Array.from({ length: 50 }, () =>
    rates.count(c, callerWith('loud', 0)).catch(() => void told.count++),
  );
  await rates.count(c, callerWith('calm', 100));
  await nextTurn();
  expect(told.count).toBeLessThan(50);
  await Promise.all(refusals);
  expect(told.count).toBe(50);
});
