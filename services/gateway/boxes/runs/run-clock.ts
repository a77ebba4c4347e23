import type { Cause } from '#contract';

/** How long the box may take to end an overdue run: by an interrupt, by a new kernel, by its own end. */
const ladderMs = 7000;
/** How long a kernel may take to start before a run begins. */
const startMs = 120_000;

export const noEnd: Cause = {
  code: 'no_end',
  detail: 'The box did not report how the run ended, long after it should have.',
};

/**
 * Returns how long the gateway waits for the end of a run that is the first in the queue of its box: its timeout, and what the box may
 * take to start and to end it.
 */
export const patienceMs = (timeoutMs: number, graceMs: number): number => timeoutMs + ladderMs + graceMs + startMs;

export interface RunClockOptions {
  timeoutMs: number;
  /** Slack beyond everything that the run itself may take. */
  graceMs: number;
  /** Aborted when the gateway stops waiting for the box. */
  over: AbortController;
  /** Resolves with how long the run has been the first in the queue of its box; undefined while another one is before it. */
  freeForMs: () => Promise<number | undefined>;
}

/**
 * The gateway's own deadline of a run, for a box that never reports an end. It counts from `begin`, or from when the run became the
 * first in the queue of its box, because time in the queue does not count. The caller has to stop it when the run ends.
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
    // While the database is away the clock checks again later.
    const freeMs = await freeForMs().catch(() => undefined);
    const leftMs = patienceMs(timeoutMs, graceMs) - (freeMs ?? 0);
    if (leftMs > 0 || hasBegun || isStopped) return hasBegun ? undefined : arm(leftMs);
    over.abort();
  };
  arm(patienceMs(timeoutMs, graceMs));

  return {
    /** Notes that the code runs now. */
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
