import type { Readable } from 'node:stream';

/** One event of a stream, and when its last byte came (`performance.now()`). */
export interface ArrivedEvent {
  at: number;
  event: { seq: number; type: string; [field: string]: unknown };
}

/** The events of an SSE or NDJSON stream; pings are skipped. */
export async function* readEvents(body: Readable, as: 'sse' | 'ndjson'): AsyncGenerator<ArrivedEvent> {
  let rest = '';
  const decoder = new TextDecoder();
  for await (const chunk of body as AsyncIterable<Buffer>) {
    const at = performance.now();
    const lines = (rest + decoder.decode(chunk, { stream: true })).split('\n');
    rest = lines.pop() ?? '';
    for (const line of lines) {
      if (as === 'ndjson' && line !== '') yield { at, event: JSON.parse(line) as ArrivedEvent['event'] };
      if (as === 'sse' && line.startsWith('data: ')) {
        yield { at, event: JSON.parse(line.slice('data: '.length)) as ArrivedEvent['event'] };
      }
    }
  }
}
