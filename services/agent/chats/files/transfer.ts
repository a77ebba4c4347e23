import type { Readable } from 'node:stream';
import { CodeBoxError } from '#contract';

const silenceMs = 60_000;

/**
 * Has `receive` read the content, with a signal that aborts when nothing has moved for too long since the first byte: before it, a box may
 * have to start. Destroys the content afterwards.
 */
export const transfer = async <T>(
  content: Readable,
  signal: AbortSignal,
  receive: (content: Readable, signal: AbortSignal) => Promise<T>,
): Promise<T> => {
  const silence = new AbortController();
  let timer: NodeJS.Timeout | undefined;
  const moved = () => {
    clearTimeout(timer);
    timer = setTimeout(() => silence.abort(new CodeBoxError('timeout', 'The copying stopped.')), silenceMs);
  };
  content.on('data', moved).on('end', moved);
  // Listening starts the flow; the consumer resumes it.
  content.pause();
  try {
    return await receive(content, AbortSignal.any([signal, silence.signal]));
  } finally {
    clearTimeout(timer);
    content.destroy();
  }
};
