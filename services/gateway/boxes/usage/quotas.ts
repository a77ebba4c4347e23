import { CodeBoxError, hasCode, type Quotas } from '#contract';
import type { ValidKey } from '../../store/tenants/keys.ts';
import { overQuota } from '../../store/usage/over-quota.ts';
import type { QuotaStore } from '../../store/usage/quotas.ts';

const todayMs = 1000;
/** Longer than a key is known, with which they come. */
const quotasMs = 2000;
const maxTenants = 10_000;

/** The last answers of a question by tenant, each good for a while. */
const remember = <T>(forMs: number, ask: (tenant: string) => Promise<T>) => {
  const known = new Map<string, { answer: T; until: number }>();
  const note = (tenant: string, answer: T) => {
    if (known.size >= maxTenants) known.clear();
    known.set(tenant, { answer, until: performance.now() + forMs });
  };
  return {
    note,
    async of(tenant: string): Promise<T> {
      const last = known.get(tenant);
      if (last && last.until > performance.now()) return last.answer;
      const answer = await ask(tenant);
      note(tenant, answer);
      return answer;
    },
  };
};

/**
 * What of a tenant's quotas is kept before the database is written. Boxes, their disks and concurrent executions are counted by the
 * database itself where their rows are inserted.
 */
export const createQuotas = (store: Pick<QuotaStore, 'find' | 'cpuToday'>) => {
  const quotas = remember<Quotas | null>(quotasMs, store.find);
  const cpuToday = remember(todayMs, store.cpuToday);

  return {
    /** The same look for a key, which brings its tenant's quotas along. */
    noting:
      (findKey: (id: string) => Promise<ValidKey | undefined>) =>
      async (id: string): Promise<ValidKey | undefined> => {
        const key = await findKey(id);
        if (key) quotas.note(key.tenantId, key.quotas);
        return key;
      },

    /** Whether the database may refuse an execution, so that it has to be asked before any code is sent. */
    limitsExecutions: async (tenant: string): Promise<boolean> =>
      ((await quotas.of(tenant))?.concurrentExecutions ?? null) !== null,

    /**
     * CPU time that a tenant may still use today, in ms; undefined for no limit. Throws `quota_exceeded` when nothing is left. What
     * boxes use is known some seconds later.
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

/** Whether the database, or this module, has refused something because of a quota. */
export const isOverQuota = (error: unknown): boolean =>
  error instanceof CodeBoxError
    ? error.code === 'quota_exceeded'
    : error instanceof Error && hasCode(error.cause, 'quota_exceeded');

export type TenantQuotas = ReturnType<typeof createQuotas>;
