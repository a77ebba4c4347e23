import { stripVTControlCharacters } from 'node:util';
import { CodeBoxError, type ExecutionDone, type ExecutionEvent } from '#contract';
import { toResult } from './result.ts';

/** Callbacks of the conversion. */
export interface Source {
  /** Stops the execution. */
  interrupt: () => Promise<void>;
  /** Throws when the sandbox has ended. */
  checkRunning: () => Promise<void>;
}

const failure = (name: string, value: string) => ({ type: 'error', name, value, traceback: `${name}: ${value}` });

/** E2B's names for ends that the program did not cause. */
const names: Partial<Record<ExecutionDone['status'], string>> = {
  timeout: 'TimeoutError',
  oom: 'MemoryError',
  killed: 'ExecutionAborted',
  output_limit: 'OutputLimitExceeded',
  interrupted: 'KeyboardInterrupt',
};

/**
 * Converts the events of an execution to the lines of E2B's code interpreter. Throws when the result is unknown or the sandbox has ended,
 * so that the stream breaks off.
 */
export async function* toLines(events: AsyncIterable<ExecutionEvent>, source: Source): AsyncGenerator<object> {
  let hasFailed = false;
  let isCounted = false;
  const count = (executionCount: number | null | undefined) => {
    isCounted = executionCount !== undefined && executionCount !== null;
    return isCounted ? [{ type: 'number_of_executions', execution_count: executionCount }] : [];
  };
  for await (const event of events) {
    const timestamp = new Date().toISOString();
    switch (event.type) {
      case 'started':
        yield* count(event.executionCount);
        break;
      case 'stdout':
      case 'stderr':
        yield { type: event.type, text: event.text, timestamp };
        break;
      case 'truncated':
        yield { type: 'stderr', text: `[${event.droppedBytes} bytes of output were dropped]\n`, timestamp };
        break;
      case 'result':
      case 'display':
        yield toResult(event.mime, event.type === 'result');
        break;
      case 'error':
        if (!hasFailed)
          yield {
            type: 'error',
            name: event.name,
            value: event.value,
            traceback: stripVTControlCharacters(event.traceback.join('\n')),
          };
        hasFailed = true;
        break;
      case 'input_request':
        // Its clients cannot send input, so the code would wait until its timeout.
        hasFailed = true;
        yield failure('StdinNotImplementedError', 'input() is not supported: nobody can answer it.');
        await source.interrupt();
        break;
      case 'done': {
        if (event.status === 'lost' || event.status === 'killed') await source.checkRunning();
        if (event.status === 'lost') throw new CodeBoxError('unavailable', 'The result of the code is unknown.');
        if (!isCounted) yield* count(event.executionCount);
        const name = names[event.status];
        if (name !== undefined && !hasFailed) yield failure(name, event.cause?.detail ?? event.status);
        yield { type: 'end_of_execution' };
        break;
      }
    }
  }
}
