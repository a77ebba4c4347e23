import { CodeBoxError, type Limits } from '#contract';
import type { BoxUsage, EmbodiedBox } from './box-usage.ts';

const statsDeadlineMs = 5000;
/** What a box may go past its budget, while its runs are ended, before it is ended itself. */
const graceMs = 5000;
const graceShare = 0.1;

/** The CPU time that boxes have. */
export const createCpuBudget = (usage: BoxUsage) => {
  const usedMs = async (found: EmbodiedBox): Promise<number> =>
    (await usage(found, AbortSignal.timeout(statsDeadlineMs))).cpuMs;

  return {
    /**
     * CPU time that a new run may use, in ms: what is asked for, at most what its box has left; undefined for no limit. Throws
     * `cpu_limit` when the box has none left, `gone` when nothing embodies it any more.
     */
    async ofRun(found: EmbodiedBox, askedSeconds: number | undefined): Promise<number | undefined> {
      const asked = askedSeconds === undefined ? undefined : Math.round(askedSeconds * 1000);
      const limit = limitMs(found.box.limits);
      if (limit === undefined) return asked;
      const left = limit - (await usedMs(found));
      if (left < 1) throw new CodeBoxError('cpu_limit', 'The box has used all the CPU time that it may use.');
      return Math.min(asked ?? left, left);
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
