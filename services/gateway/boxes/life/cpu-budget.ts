import { CodeBoxError, type Limits } from '#contract';
import type { UsageStore } from '../../store/usage/usage.ts';
import type { TenantQuotas } from '../usage/quotas.ts';
import type { BoxInstance, BoxUsage } from './box-usage.ts';

/** Slack beyond the limit, in which the box server ends the runs by itself. */
const graceMs = 5000;
const graceShare = 0.1;

export interface CpuBudgetOptions {
  usage: BoxUsage;
  metered: Pick<UsageStore, 'lastCpuMs'>;
  quotas: Pick<TenantQuotas, 'cpuLeftMs'>;
}

/** Limits the CPU time of runs to what is left for their box, and for their tenant today. */
export const createCpuBudget = ({ usage, metered, quotas }: CpuBudgetOptions) => {
  /** The last known CPU time, used while the host reports none: zero would reward a box that keeps the host from counting. */
  const usedMs = async (found: BoxInstance): Promise<number> =>
    (await usage(found))?.cpuMs ??
    Math.max(0, (await metered.lastCpuMs(found.instance)) - (found.box.startupCpuMs ?? 0));

  return {
    /**
     * Returns the CPU time that a new run may use, in ms: what the request asks for, at most what is left for the box and for its
     * tenant today; undefined for no limit. Throws `cpu_limit` when the box has none left, `quota_exceeded` when the tenant has none,
     * `gone` when the box has no instance.
     */
    async ofRun(found: BoxInstance, requestedSeconds: number | undefined): Promise<number | undefined> {
      const requested = requestedSeconds === undefined ? undefined : Math.round(requestedSeconds * 1000);
      const limit = limitMs(found.box.limits);
      const [left, leftToday] = await Promise.all([
        limit === undefined ? undefined : usedMs(found).then((used) => limit - used),
        quotas.cpuLeftMs(found.box.tenantId),
      ]);
      if (left !== undefined && left < 1)
        throw new CodeBoxError('cpu_limit', 'The box has used all the CPU time that it may use.');
      const limits = [requested, left, leftToday].filter((ms) => ms !== undefined);
      return limits.length === 0 ? undefined : Math.min(...limits);
    },

    /** Returns the CPU time of a box that exceeds its limit by more than single runs do, in ms; otherwise undefined. */
    async overspentMs(found: BoxInstance): Promise<number | undefined> {
      const limit = limitMs(found.box.limits);
      const used = limit === undefined ? 0 : await usedMs(found);
      return limit !== undefined && used > limit * (1 + graceShare) + graceMs ? used : undefined;
    },
  };
};

export type CpuBudget = ReturnType<typeof createCpuBudget>;

/** Returns the CPU time that a box may use in its life, in ms; undefined for no limit. */
export const limitMs = ({ cpuSeconds }: Limits): number | undefined =>
  cpuSeconds === undefined ? undefined : Math.round(cpuSeconds * 1000);
