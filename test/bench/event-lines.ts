import type { Readable } from 'node:stream';

/** One event of a stream, and the time of its last byte (`performance.now()`). */
export interface ArrivedEvent {
  at: number;
  event: { seq: number; type: string; [field: string]: unknown };
}

/** Yields the events of an SSE or NDJSON stream without pings. */
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
