import { setTimeout as sleep } from 'node:timers/promises';
import type { Context } from 'hono';
import { overQuota } from '../../store/usage/over-quota.ts';
import type { QuotaStore, RequestLease } from '../../store/usage/quotas.ts';
import type { Env } from '../env.ts';
import type { KnownCaller } from './key-check.ts';

/** The tenant whose requests are counted, with its quotas; a null quota is no limit. */
type Counted = Pick<KnownCaller, 'tenantId' | 'quotas'>;

interface Window {
  limit: number;
  /** The rest of this gateway's lease. */
  left: number;
  taken: number;
  until: number;
  /** When the last delayed refusal is sent. */
  refusedUntil: number;
}

/** The share of the limit that a gateway leases at once: this much may be unused in other gateways while one refuses. */
const leaseShare = 0.05;
const maxTenants = 10_000;
const windowSeconds = 60;
/** Refusals of a tenant are spaced this far apart, and none is delayed longer than the second value. */
const refusalGapMs = 10;
const longestRefusalMs = 1000;

/**
 * Limits the requests of tenants for each minute of the database's clock. A gateway leases some from the database and counts them down
 * in memory, so all gateways together never admit more than the limit.
 */
export const createRequestRates = (store: Pick<QuotaStore, 'leaseRequests'>, now = () => performance.now()) => {
  const windows = new Map<string, Window>();
  const pending = new Map<string, Promise<void>>();

  const toWindow = (limit: number, { granted, taken, endsInMs }: RequestLease): Window => ({
    limit,
    left: granted,
    taken,
    until: now() + endsInMs,
    refusedUntil: 0,
  });

  const lease = async (tenant: string, limit: number): Promise<void> => {
    const count = Math.max(1, Math.floor(limit * leaseShare));
    const found = toWindow(limit, await store.leaseRequests(tenant, count, limit));
    if (windows.size >= maxTenants) windows.clear();
    windows.set(tenant, found);
  };

  /** Takes one request out of the window, if any is left. */
  const take = async (tenant: string, limit: number): Promise<{ window: Window; isAdmitted: boolean }> => {
    for (;;) {
      const window = windows.get(tenant);
      const holds = window !== undefined && window.until > now() && window.limit === limit;
      if (holds && window.left > 0) {
        window.left -= 1;
        return { window, isAdmitted: true };
      }
      if (holds && window.taken >= limit) return { window, isAdmitted: false };
      const leasing = pending.get(tenant) ?? lease(tenant, limit).finally(() => pending.delete(tenant));
      pending.set(tenant, leasing);
      await leasing;
    }
  };

  /** Delays a refusal: one is cheap, but thousands in a second would slow all tenants down. */
  const slowDown = async (window: Window): Promise<void> => {
    window.refusedUntil = Math.min(Math.max(window.refusedUntil, now()) + refusalGapMs, now() + longestRefusalMs);
    await sleep(window.refusedUntil - now());
  };

  const admit = async (
    tenant: string,
    limit: number,
    report?: (left: number, seconds: number) => void,
  ): Promise<void> => {
    const { window, isAdmitted } = await take(tenant, limit);
    const seconds = Math.max(1, Math.ceil((window.until - now()) / 1000));
    report?.(Math.max(0, limit - window.taken) + window.left, seconds);
    if (isAdmitted) return;
    await slowDown(window);
    throw overQuota({ name: 'requestsPerMinute', limit, used: window.taken }, seconds);
  };

  return {
    /** Admits a request and sets the RateLimit headers of its response; throws `quota_exceeded` when none is left. */
    async count(c: Context<Env>, { tenantId, quotas }: Counted): Promise<void> {
      const limit = quotas?.requestsPerMinute ?? null;
      if (limit === null) return;
      await admit(tenantId, limit, (left, seconds) => {
        c.header('RateLimit-Policy', `"requests";q=${limit};w=${windowSeconds}`);
        c.header('RateLimit', `"requests";r=${left};t=${seconds}`);
      });
    },

    /** Admits a message of a WebSocket, which counts as a request; throws `quota_exceeded` likewise. */
    async countMessage({ tenantId, quotas }: Counted): Promise<void> {
      const limit = quotas?.requestsPerMinute ?? null;
      if (limit !== null) await admit(tenantId, limit);
    },
  };
};

export type RequestRates = ReturnType<typeof createRequestRates>;
