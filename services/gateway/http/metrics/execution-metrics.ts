import { Counter, Histogram, type Registry } from 'prom-client';
import { boxCauseSchema, type ExecutionDone } from '#contract';

/** Of a run that needs no cause, of one that a box made up, and of a language that no template has. */
const none = 'none';
const other = 'other';

/** Causes by which a run ends; a box may send any text. */
const causes = new Set([
  ...['timeout', 'cpu_limit', 'output_limit', 'interrupted', 'signal', 'exit', 'oom', 'disk_full', 'pids_limit'],
  ...['kernel_start', 'restarted', 'context_deleted', 'not_started', 'internal'],
  ...['journal_lost', 'protocol_error', 'no_end'],
  ...[...boxCauseSchema.shape.code.options, 'lost', 'hibernated'].map((code) => `box_${code}`),
]);

/** A box that tells of a longer time must not drown the sums of the others. */
const maxSeconds = 4000;

/** Series of how executions ended. Answers what is to be told of each, once. */
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

  return (done: ExecutionDone, spoken: string | null): void => {
    const language = spoken !== null && known.has(spoken) ? spoken : other;
    const cause = done.cause ? (causes.has(done.cause.code) ? done.cause.code : other) : none;
    ended.inc({ status: done.status, cause, language });
    // Of one that was lost nobody knows how long it took.
    if (done.status === 'lost') return;
    runSeconds.observe({ language }, toSeconds(done.durationMs));
    queueSeconds.observe({ language }, toSeconds(done.queuedMs ?? 0));
  };
};

const toSeconds = (ms: number): number => Math.min(ms / 1000, maxSeconds);
