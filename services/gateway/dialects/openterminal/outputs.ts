import type { ExecutionEvent } from '#contract';

type Mime = Record<string, unknown>;
/** An output of a cell in nbformat 4. */
type Output =
  | { output_type: 'stream'; name: 'stdout' | 'stderr'; text: string }
  | { output_type: 'execute_result'; data: Mime; metadata: Mime; execution_count: number | null }
  | { output_type: 'display_data'; data: Mime; metadata: Mime }
  | { output_type: 'error'; ename: string; evalue: string; traceback: string[] };

export interface CellOutcome {
  count: number | null;
  hasFailed: boolean;
  outputs: Output[];
}

/** Reads the events of a run to the end, as the outputs of a cell. */
export const readOutcome = async (events: AsyncIterable<ExecutionEvent>): Promise<CellOutcome> => {
  const outcome: CellOutcome = { count: null, hasFailed: false, outputs: [] };
  const shown = new Map<string, Extract<Output, { output_type: 'display_data' }>>();
  let clearsNext = false;
  const add = (output: Output): void => {
    if (clearsNext) outcome.outputs = [];
    clearsNext = false;
    const last = outcome.outputs.at(-1);
    if (output.output_type === 'stream' && last?.output_type === 'stream' && last.name === output.name)
      last.text += output.text;
    else outcome.outputs.push(output);
  };
  const stream = (name: 'stdout' | 'stderr', text: string) => add({ output_type: 'stream', name, text });
  const fail = (ename: string, evalue: string, traceback: string[]) =>
    add({ output_type: 'error', ename, evalue, traceback });

  for await (const event of events) {
    switch (event.type) {
      case 'started':
        outcome.count = event.executionCount ?? null;
        break;
      case 'stdout':
      case 'stderr':
        stream(event.type, event.text);
        break;
      case 'truncated':
        stream('stderr', `[${event.droppedBytes} bytes of output were dropped]\n`);
        break;
      case 'result':
        add({
          output_type: 'execute_result',
          data: event.mime,
          metadata: event.metadata ?? {},
          execution_count: outcome.count,
        });
        break;
      case 'display': {
        const output = { output_type: 'display_data' as const, data: event.mime, metadata: event.metadata ?? {} };
        if (event.displayId !== undefined) shown.set(event.displayId, output);
        add(output);
        break;
      }
      case 'display_update':
        Object.assign(shown.get(event.displayId) ?? {}, { data: event.mime, metadata: event.metadata ?? {} });
        break;
      case 'clear':
        clearsNext = event.wait;
        if (!event.wait) outcome.outputs = [];
        break;
      case 'error':
        fail(event.name, event.value, event.traceback);
        break;
      case 'done':
        outcome.count = event.executionCount ?? outcome.count;
        outcome.hasFailed = event.status !== 'ok';
        // The end of a run that no code has raised.
        if (!['ok', 'error'].includes(event.status)) fail(event.status, event.cause?.detail ?? event.status, []);
        break;
    }
  }
  return outcome;
};
