import type { CommandEvent, Execution, ExecutionDone, ExecutionEvent, RunError } from '#contract';
import type { ExecutionRow } from '../store/executions.ts';

/** An execution with its outputs, as far as its box still has them. */
export interface ReadExecution {
  row: ExecutionRow;
  done: ExecutionDone | null;
  events: ExecutionEvent[] | null;
}

/** An execution as JSON, from its row and what its box still has of it. */
export const toExecution = ({ row, done, events }: ReadExecution): Execution => {
  const last = done ?? undefined;
  const result = events?.find((event) => event.type === 'result');
  const started = events?.find((event) => event.type === 'started');
  const text = result?.mime['text/plain'];
  return {
    ...toExecutionSummary(row, done),
    context: started?.context ?? row.context,
    language: started?.language ?? row.language,
    lastSeq: events?.at(-1)?.seq ?? last?.seq ?? 0,
    text: typeof text === 'string' ? text : null,
    error: toRunError(events ?? []),
    outputs: events?.filter((event) => event.type !== 'started' && event.type !== 'done') ?? null,
  };
};

/** The error of a run among its events. */
export const toRunError = (events: readonly (ExecutionEvent | CommandEvent)[]): RunError | null => {
  const error = events.find((event) => event.type === 'error');
  if (!error) return null;
  const { name, value, traceback, hint } = error;
  return { name, value, traceback, ...(hint && { hint }) };
};

/** The same before and after the end is recorded. */
const finishedAt = (row: ExecutionRow, done: ExecutionDone | null): Date | null =>
  done && done.status !== 'lost'
    ? new Date(row.createdAt.getTime() + Math.round((done.queuedMs ?? 0) + done.durationMs))
    : row.finishedAt;

/** What a list tells of an execution. */
export const toExecutionSummary = (row: ExecutionRow, done: ExecutionDone | null = row.done) => {
  const cause = done?.cause ?? row.cause;
  return {
    id: row.id,
    box: row.boxId,
    context: row.context,
    language: row.language,
    status: done?.status ?? row.status,
    ...(cause && { cause }),
    createdAt: row.createdAt.toISOString(),
    finishedAt: finishedAt(row, done)?.toISOString() ?? null,
    executionCount: done?.executionCount ?? null,
    durationMs: done?.durationMs ?? null,
    queuedMs: done?.queuedMs ?? null,
    cpuMs: done?.cpuMs ?? null,
    peakMemoryBytes: done?.peakMemoryBytes ?? null,
    stateLost: done?.stateLost ?? row.status === 'lost',
    processes: done?.processes ?? null,
    files: done?.files ?? null,
    lastSeq: done?.seq ?? 0,
  };
};
