import type { Reporter } from 'vitest/node';

/** The time for which a run that has ended may stop its workers and remove what its set-up made. */
const closeMs = 60_000;

/**
 * Ends the process some time after the last test. Vitest waits without a deadline for the output of its workers to end, and a
 * process that a failed test left behind may keep that open for ever.
 */
export class ClosesInTime implements Reporter {
  onTestRunEnd(): void {
    setTimeout(() => {
      process.stderr.write(
        'A process that a test left behind keeps the output of a worker open; this run ends without it.\n',
      );
      process.exit();
    }, closeMs).unref();
  }
}
