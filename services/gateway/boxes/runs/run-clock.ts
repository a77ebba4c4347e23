import type { Cause } from '#contract';

/** What the box itself may take to end a run that is past its time: an interrupt, a new kernel, the end of the box. */
const ladderMs = 7000;
/** What a kernel may take to start before a run begins. */
const startMs = 120_000;

export const noEnd: Cause = {
  code: 'no_end',
  detail: 'The box has not told how the run ended, long after it should have.',
};

/**
 * How long a run may go on, from when nothing of its box was before it, until its box is not waited for any more: its own time
 * and what it takes to start and to end it.
 */
export const patienceMs = (timeoutMs: number, graceMs: number): number => timeoutMs + ladderMs + graceMs + startMs;

export interface RunClockOptions {
  timeoutMs: number;
  /** What is granted on top of all that a run may take. */
  graceMs: number;
  /** Aborted when the box has to be given up on. */
  over: AbortController;
  /** For how long nothing has been before it in its box; undefined while something is. */
  freeForMs: () => Promise<number | undefined>;
}

/**
 * The gateway's own clock of a run: a box that never tells of its end keeps nobody waiting. It runs from `begin`, or, as time in
 * the queue does not count, from when the run was the oldest one of its box. To be stopped with the run.
 */
export const startRunClock = ({ timeoutMs, graceMs, over, freeForMs }: RunClockOptions) => {
  let timer: NodeJS.Timeout | undefined;
  let isStopped = false;
  let hasBegun = false;

  const arm = (ms: number) => {
    clearTimeout(timer);
    if (!isStopped) timer = setTimeout(() => void check(), Math.max(100, ms)).unref();
  };
  const check = async () => {
    if (hasBegun) return over.abort();
    // A database that is away decides nothing: it is asked again.
    const freeMs = await freeForMs().catch(() => undefined);
    const leftMs = patienceMs(timeoutMs, graceMs) - (freeMs ?? 0);
    if (leftMs > 0 || hasBegun || isStopped) return hasBegun ? undefined : arm(leftMs);
    over.abort();
  };
  arm(patienceMs(timeoutMs, graceMs));

  return {
    /** The code runs now. */
    begin(): void {
      if (hasBegun) return;
      hasBegun = true;
      arm(timeoutMs + ladderMs + graceMs);
    },
    stop(): void {
      isStopped = true;
      clearTimeout(timer);
    },
  };
};
