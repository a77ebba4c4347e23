import type { CommandEvent, ExecutionEvent } from '#contract';

export type RunEvent = ExecutionEvent | CommandEvent;

/** The names of Python's own exceptions, because clients look for those. */
const endings = {
  timeout: 'TimeoutError',
  oom: 'MemoryError',
  interrupted: 'KeyboardInterrupt',
  killed: 'RuntimeError',
  output_limit: 'RuntimeError',
  lost: 'RuntimeError',
} as const;

/** The picture or the text that represents a value: the API has no other forms in either version. */
export const richOf = (mime: Record<string, unknown>): { image: string } | { text: string } | undefined => {
  const image = mime['image/png'];
  if (typeof image === 'string') return { image: image.replaceAll('\n', '') };
  const text = mime['text/plain'];
  return typeof text === 'string' ? { text } : undefined;
};

/** The error that an event reports, such as `NameError: name 'x' is not defined`, whether of the code or of its limits. */
export const errorOf = (event: RunEvent): string | undefined => {
  switch (event.type) {
    case 'error':
      return `${event.name}: ${event.value}`;
    case 'input_request':
      return 'EOFError: nobody can answer input() here';
    case 'truncated':
      return `RuntimeError: ${event.droppedBytes} bytes of output were dropped here`;
    case 'done': {
      const { status, cause } = event;
      return status === 'ok' || status === 'error' ? undefined : `${endings[status]}: ${cause?.detail ?? status}`;
    }
    default:
      return undefined;
  }
};

/** The whole output of a run as version 1 shows it. */
export interface Output {
  type: 'text' | 'image/png' | 'error';
  content: string;
}

/** Reads a run to its end, and returns its first picture, otherwise its first error, otherwise all of its text. */
export const toOutput = async (events: AsyncIterable<RunEvent>): Promise<Output> => {
  let [text, image, error]: [string, string?, string?] = [''];
  for await (const event of events) {
    error ??= errorOf(event);
    if (event.type === 'stdout' || event.type === 'stderr') text += event.text;
    if (!('mime' in event)) continue;
    const rich = richOf(event.mime);
    if (rich && 'image' in rich) image ??= rich.image;
    else if (rich) text += `${rich.text}\n`;
  }
  if (image !== undefined) return { type: 'image/png', content: image };
  if (error !== undefined) return { type: 'error', content: error };
  return { type: 'text', content: text || 'code run successfully (no output)' };
};
