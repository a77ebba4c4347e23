import type { Dispatcher } from 'undici';
import type { CodeBoxError } from '#contract';
import type { BoxCall } from '../tracing/box-call.ts';
import { readLines } from './protocol/lines.ts';
import type { SharedRun } from './run-socket.ts';

/** How much of an unwanted body is read before its connection is closed. */
const leftoverBytes = 1024;

/** Yields the events of a response. `failed` returns the error to throw for one of the connection. */
export async function* readEvents(
  { body }: Pick<Dispatcher.ResponseData, 'body'>,
  failed: (error: unknown) => CodeBoxError,
  traced: BoxCall | undefined,
): AsyncGenerator<unknown> {
  let failure: CodeBoxError | undefined;
  try {
    const lines = readLines(body.iterator({ destroyOnReturn: false }));
    yield* traced ? traceEvents(lines, traced) : lines;
  } catch (error) {
    failure = failed(error);
    throw failure;
  } finally {
    traced?.end(failure?.code);
    // After the last event only the end of the body is left; reading it frees the connection for the next request.
    body.dump({ limit: leftoverBytes }).catch(() => {});
  }
}

async function* traceEvents(lines: AsyncGenerator<unknown>, traced: BoxCall): AsyncGenerator<unknown> {
  for await (const line of lines) {
    traced.event(line);
    yield line;
  }
}

/** Yields the events of a run that shares its connection, then those that `readOn` requests, which are after the one with this number. */
export async function* readSharedEvents(
  run: SharedRun,
  failed: (error: unknown) => CodeBoxError,
  readOn: (after: number) => Promise<AsyncGenerator<unknown>>,
): AsyncGenerator<unknown> {
  let seq = 0;
  try {
    for await (const event of readLines(run.lines.iterator({ destroyOnReturn: false }))) {
      seq += 1;
      yield event;
    }
  } catch (error) {
    throw failed(error);
  } finally {
    // The iterator would do that with an error, whose stack trace takes longer than everything else here.
    run.lines.destroy();
  }
  if (run.hasMore) yield* await readOn(seq);
}
