import { setTimeout as sleep } from 'node:timers/promises';
import type { Context } from 'hono';
import { overQuota } from '../../store/usage/over-quota.ts';
import type { QuotaStore, RequestLease } from '../../store/usage/quotas.ts';
import type { Env } from '../env.ts';
import type { KnownCaller } from './key-check.ts';

/** Whose requests are counted, and their limit among the quotas; null is no limit. */
type Counted = Pick<KnownCaller, 'tenantId' | 'quotas'>;

interface Window {
  limit: number;
  /** Of what this gateway has set aside. */
  left: number;
  taken: number;
  until: number;
  /** When the last refusal that waits is told. */
  toldUntil: number;
}

/** Share of the limit that a gateway sets aside at once: so much may go unused at others while one refuses. */
const leaseShare = 0.05;
const maxTenants = 10_000;
const windowSeconds = 60;
/** Refusals of a tenant are told one after the other, so far apart, and none later than this. */
const refusalGapMs = 10;
const longestRefusalMs = 1000;

/**
 * Requests of tenants against their limit by the minute of the database's clock. A gateway sets some aside in the database and
 * counts those down in memory, so that all gateways together never let in more than the limit.
 */
export const createRequestRates = (store: Pick<QuotaStore, 'leaseRequests'>, now = () => performance.now()) => {
  const windows = new Map<string, Window>();
  const pending = new Map<string, Promise<void>>();

  const toWindow = (limit: number, { granted, taken, endsInMs }: RequestLease): Window => ({
    limit,
    left: granted,
    taken,
    until: now() + endsInMs,
    toldUntil: 0,
  });

  const lease = async (tenant: string, limit: number): Promise<void> => {
    const count = Math.max(1, Math.floor(limit * leaseShare));
    const found = toWindow(limit, await store.leaseRequests(tenant, count, limit));
    if (windows.size >= maxTenants) windows.clear();
    windows.set(tenant, found);
  };

  /** Takes one request out of the window; whether there was one for anybody. */
  const take = async (tenant: string, limit: number): Promise<{ window: Window; isLetIn: boolean }> => {
    for (;;) {
      const window = windows.get(tenant);
      const holds = window !== undefined && window.until > now() && window.limit === limit;
      if (holds && window.left > 0) {
        window.left -= 1;
        return { window, isLetIn: true };
      }
      if (holds && window.taken >= limit) return { window, isLetIn: false };
      const leasing = pending.get(tenant) ?? lease(tenant, limit).finally(() => pending.delete(tenant));
      pending.set(tenant, leasing);
      await leasing;
    }
  };

  /** Who asks on without a pause is slowed down: a refusal costs little, thousands in a second are felt by all. */
  const slowDown = async (window: Window): Promise<void> => {
    window.toldUntil = Math.min(Math.max(window.toldUntil, now()) + refusalGapMs, now() + longestRefusalMs);
    await sleep(window.toldUntil - now());
  };

  const letIn = async (
    tenant: string,
    limit: number,
    tell?: (left: number, seconds: number) => void,
  ): Promise<void> => {
    const { window, isLetIn } = await take(tenant, limit);
    const seconds = Math.max(1, Math.ceil((window.until - now()) / 1000));
    tell?.(Math.max(0, limit - window.taken) + window.left, seconds);
    if (isLetIn) return;
    await slowDown(window);
    throw overQuota({ name: 'requestsPerMinute', limit, used: window.taken }, seconds);
  };

  return {
    /** Lets a request in and tells what is left, in the answer's headers; throws `quota_exceeded` when nothing is. */
    async count(c: Context<Env>, { tenantId, quotas }: Counted): Promise<void> {
      const limit = quotas?.requestsPerMinute ?? null;
      if (limit === null) return;
      await letIn(tenantId, limit, (left, seconds) => {
        c.header('RateLimit-Policy', `"requests";q=${limit};w=${windowSeconds}`);
        c.header('RateLimit', `"requests";r=${left};t=${seconds}`);
      });
    },

    /** Lets in a message of a WebSocket, which counts as a request; throws `quota_exceeded` likewise. */
    async countMessage({ tenantId, quotas }: Counted): Promise<void> {
      const limit = quotas?.requestsPerMinute ?? null;
      if (limit !== null) await letIn(tenantId, limit);
    },
  };
};

export type RequestRates = ReturnType<typeof createRequestRates>;
