import { CodeBoxError, type Limits } from '#contract';
import type { TenantQuotas } from '../usage/quotas.ts';
import type { BoxUsage, EmbodiedBox } from './box-usage.ts';

/** What a box may go past its budget, while its runs are ended, before it is ended itself. */
const graceMs = 5000;
const graceShare = 0.1;

/** The CPU time that boxes have, and their tenants for the day. */
export const createCpuBudget = (usage: BoxUsage, quotas: Pick<TenantQuotas, 'cpuLeftMs'>) => {
  /** What the host does not know now it will have counted later. */
  const usedMs = async (found: EmbodiedBox): Promise<number> => (await usage(found))?.cpuMs ?? 0;

  return {
    /**
     * CPU time that a new run may use, in ms: what is asked for, at most what its box and its tenant's day have left; undefined for no
     * limit. Throws `cpu_limit` when the box has none left, `quota_exceeded` when the tenant has none, `gone` when nothing embodies
     * the box any more.
     */
    async ofRun(found: EmbodiedBox, askedSeconds: number | undefined): Promise<number | undefined> {
      const asked = askedSeconds === undefined ? undefined : Math.round(askedSeconds * 1000);
      const limit = limitMs(found.box.limits);
      const [left, leftToday] = await Promise.all([
        limit === undefined ? undefined : usedMs(found).then((used) => limit - used),
        quotas.cpuLeftMs(found.box.tenantId),
      ]);
      if (left !== undefined && left < 1)
        throw new CodeBoxError('cpu_limit', 'The box has used all the CPU time that it may use.');
      const known = [asked, left, leftToday].filter((ms) => ms !== undefined);
      return known.length === 0 ? undefined : Math.min(...known);
    },

    /** Whether a box goes on although its budget is spent: its own server has not ended what runs. */
    async isOverspent(found: EmbodiedBox): Promise<boolean> {
      const limit = limitMs(found.box.limits);
      return limit !== undefined && (await usedMs(found)) > limit * (1 + graceShare) + graceMs;
    },
  };
};

export type CpuBudget = ReturnType<typeof createCpuBudget>;

/** The CPU time that a box may use in its life, in ms. */
export const limitMs = ({ cpuSeconds }: Limits): number | undefined =>
  cpuSeconds === undefined ? undefined : Math.round(cpuSeconds * 1000);
