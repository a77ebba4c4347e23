import type { CommandEvent, Execution, ExecutionDone, ExecutionEvent, ExecutionSummary, RunError } from '#contract';
import type { BoxExecution } from '../../box-server/protocol/schemas.ts';
import type { ExecutionRow } from '../../store/box/executions.ts';

/** The box's view of an unfinished execution. */
type LiveExecution = Omit<BoxExecution, 'state' | 'done'>;

/** An execution with its end, or until then with the box's view of it. */
export interface KnownExecution {
  row: ExecutionRow;
  done: ExecutionDone | null;
  live?: LiveExecution | undefined;
}

/** An execution with its events; null when its box no longer has them. */
export interface ReadExecution extends KnownExecution {
  events: ExecutionEvent[] | null;
}

/** Converts an execution with its outputs to JSON. */
export const toExecution = ({ events, ...known }: ReadExecution): Execution => {
  const result = events?.find((event) => event.type === 'result');
  const started = events?.find((event) => event.type === 'started');
  const text = result?.mime['text/plain'];
  return {
    ...toExecutionSummary(known),
    ...(started && { context: started.context, language: started.language }),
    lastSeq: events?.at(-1)?.seq ?? known.done?.seq ?? 0,
    text: typeof text === 'string' ? text : null,
    error: toRunError(events ?? []),
    outputs: events?.filter((event) => event.type !== 'started' && event.type !== 'done') ?? null,
  };
};

/** Returns the error of a run, from its events. */
export const toRunError = (events: readonly (ExecutionEvent | CommandEvent)[]): RunError | null => {
  const error = events.find((event) => event.type === 'error');
  if (!error) return null;
  const { name, value, traceback, hint } = error;
  return { name, value, traceback, ...(hint && { hint }) };
};

/** Computed from the last event, so that it is the same before and after the end is recorded. */
const finishedAt = (row: ExecutionRow, done: ExecutionDone | null): Date | null =>
  done && done.status !== 'lost'
    ? new Date(row.createdAt.getTime() + Math.round((done.queuedMs ?? 0) + done.durationMs))
    : row.finishedAt;

/** Adds the time in the queue to `createdAt`. Null also for an execution that ended without having run. */
const startedAt = ({ row, done, live }: KnownExecution): Date | null => {
  const queuedMs = done ? done.durationMs > 0 && done.queuedMs : live?.queuedMs;
  return typeof queuedMs === 'number' ? new Date(row.createdAt.getTime() + Math.round(queuedMs)) : null;
};

/** Converts an execution without its outputs to JSON. */
export const toExecutionSummary = (known: KnownExecution): ExecutionSummary => {
  const { row, done, live } = known;
  const cause = done?.cause ?? row.cause;
  return {
    id: row.id,
    box: row.boxId,
    context: row.context ?? live?.context ?? null,
    language: row.language ?? live?.language ?? null,
    status: done?.status ?? row.status,
    ...(cause && { cause }),
    createdAt: row.createdAt.toISOString(),
    startedAt: startedAt(known)?.toISOString() ?? null,
    finishedAt: finishedAt(row, done)?.toISOString() ?? null,
    executionCount: done?.executionCount ?? live?.executionCount ?? null,
    durationMs: done?.durationMs ?? null,
    queuedMs: done?.queuedMs ?? live?.queuedMs ?? null,
    cpuMs: done?.cpuMs ?? null,
    peakMemoryBytes: done?.peakMemoryBytes ?? null,
    stateLost: done?.stateLost ?? row.status === 'lost',
    processes: done?.processes ?? null,
    files: done?.files ?? null,
    lastSeq: done?.seq ?? live?.lastSeq ?? 0,
  };
};
