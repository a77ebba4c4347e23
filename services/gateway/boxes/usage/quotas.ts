import { CodeBoxError, hasCode, type Quotas } from '#contract';
import type { ValidKey } from '../../store/tenants/keys.ts';
import { overQuota } from '../../store/usage/over-quota.ts';
import type { QuotaStore } from '../../store/usage/quotas.ts';

const todayMs = 1000;
/** Longer than a key is cached, because each look-up of a key brings the quotas along. */
const quotasMs = 2000;
const maxTenants = 10_000;

/** Caches a value per tenant for a while. */
const createCache = <T>(forMs: number, read: (tenant: string) => Promise<T>) => {
  const cached = new Map<string, { value: T; until: number }>();
  const note = (tenant: string, value: T) => {
    if (cached.size >= maxTenants) cached.clear();
    cached.set(tenant, { value, until: performance.now() + forMs });
  };
  return {
    note,
    async of(tenant: string): Promise<T> {
      const last = cached.get(tenant);
      if (last && last.until > performance.now()) return last.value;
      const value = await read(tenant);
      note(tenant, value);
      return value;
    },
  };
};

/**
 * Enforces the quotas that the gateway checks itself. The database enforces those on boxes, their disks and concurrent executions when
 * their rows are inserted.
 */
export const createQuotas = (store: Pick<QuotaStore, 'find' | 'cpuToday'>) => {
  const quotas = createCache<Quotas | null>(quotasMs, store.find);
  const cpuToday = createCache(todayMs, store.cpuToday);

  return {
    /** Wraps the look-up of a key to cache the quotas that come with it. */
    noting:
      (findKey: (id: string) => Promise<ValidKey | undefined>) =>
      async (id: string): Promise<ValidKey | undefined> => {
        const key = await findKey(id);
        if (key) quotas.note(key.tenantId, key.quotas);
        return key;
      },

    /** Resolves with whether the database may refuse an execution, so that its record has to be written before any code is sent. */
    limitsExecutions: async (tenant: string): Promise<boolean> =>
      ((await quotas.of(tenant))?.concurrentExecutions ?? null) !== null,

    /**
     * Resolves with the CPU time that a tenant may still use today, in ms; undefined for no limit. Throws `quota_exceeded` when nothing is
     * left. The use of boxes is metered with a delay of some seconds.
     */
    async cpuLeftMs(tenant: string): Promise<number | undefined> {
      const limit = (await quotas.of(tenant))?.cpuSecondsPerDay ?? null;
      if (limit === null) return undefined;
      const { usedMs, dayEndsInSeconds } = await cpuToday.of(tenant);
      const left = limit * 1000 - usedMs;
      if (left >= 1) return left;
      const used = Math.floor(usedMs / 1000);
      throw overQuota({ name: 'cpuSecondsPerDay', limit, used }, dayEndsInSeconds);
    },
  };
};

/** Returns whether an error is the refusal of the database, or of this module, because of a quota. */
export const isOverQuota = (error: unknown): boolean =>
  error instanceof CodeBoxError
    ? error.code === 'quota_exceeded'
    : error instanceof Error && hasCode(error.cause, 'quota_exceeded');

export type TenantQuotas = ReturnType<typeof createQuotas>;
