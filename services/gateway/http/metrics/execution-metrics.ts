import { Counter, Histogram, type Registry } from 'prom-client';
import { boxCauseSchema, type ExecutionDone } from '#contract';

/** Label values for a run without a cause, and for a cause or a language outside the known lists. */
const none = 'none';
const other = 'other';

/** The known causes of the end of a run; a box may send any text. */
const causes = new Set([
  ...['timeout', 'cpu_limit', 'output_limit', 'interrupted', 'signal', 'exit', 'oom', 'disk_full', 'pids_limit'],
  ...['kernel_start', 'restarted', 'context_deleted', 'not_started', 'internal'],
  ...['journal_lost', 'protocol_error', 'no_end'],
  ...[...boxCauseSchema.shape.code.options, 'lost', 'hibernated'].map((code) => `box_${code}`),
]);

/** Upper bound of a reported time, so that no box can distort the sums of the others. */
const maxSeconds = 4000;

/** Adds the series of how executions ended. Returns the function to call once for each execution. */
export const createExecutionMetrics = (registry: Registry, languages: Iterable<string>) => {
  const registers = [registry];
  const known = new Set(languages);
  const ended = new Counter({
    name: 'codebox_executions_total',
    help: 'Executions that ended, by status, cause and language.',
    labelNames: ['status', 'cause', 'language'],
    registers,
  });
  const buckets = [0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10, 60, 600, 3600];
  const runSeconds = new Histogram({
    name: 'codebox_execution_run_seconds',
    help: 'Run time of executions in their kernel.',
    labelNames: ['language'],
    buckets,
    registers,
  });
  const queueSeconds = new Histogram({
    name: 'codebox_execution_queue_seconds',
    help: 'Time for which executions waited in their box: for those before them, or for their kernel to start.',
    labelNames: ['language'],
    buckets,
    registers,
  });

  return (done: ExecutionDone, reported: string | null): void => {
    const language = reported !== null && known.has(reported) ? reported : other;
    const cause = done.cause ? (causes.has(done.cause.code) ? done.cause.code : other) : none;
    ended.inc({ status: done.status, cause, language });
    // The duration of a lost run is unknown.
    if (done.status === 'lost') return;
    runSeconds.observe({ language }, toSeconds(done.durationMs));
    queueSeconds.observe({ language }, toSeconds(done.queuedMs ?? 0));
  };
};

const toSeconds = (ms: number): number => Math.min(ms / 1000, maxSeconds);
