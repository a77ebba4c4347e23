import type { CommandEvent, Execution, ExecutionDone, ExecutionEvent, ExecutionSummary, RunError } from '#contract';
import type { BoxExecution } from '../../box-server/client.ts';
import type { ExecutionRow } from '../../store/box/executions.ts';

/** What its box knows of an execution that has not ended. */
type LiveExecution = Omit<BoxExecution, 'state' | 'done'>;

/** An execution as far as it is known: its end, or until then what its box tells. */
export interface KnownExecution {
  row: ExecutionRow;
  done: ExecutionDone | null;
  live?: LiveExecution | undefined;
}

/** An execution with its outputs, as far as its box still has them. */
export interface ReadExecution extends KnownExecution {
  events: ExecutionEvent[] | null;
}

/** An execution as JSON, from its row and what its box still has of it. */
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

/** As exact as `createdAt`, to which its time in the queue is added. Null also for one that ended without having run. */
const startedAt = ({ row, done, live }: KnownExecution): Date | null => {
  const queuedMs = done ? done.durationMs > 0 && done.queuedMs : live?.queuedMs;
  return typeof queuedMs === 'number' ? new Date(row.createdAt.getTime() + Math.round(queuedMs)) : null;
};

/** What a list tells of an execution. */
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
