import type { Readable } from 'node:stream';
import { CodeBoxError } from '#contract';
import { createPatience } from '../../../waiting/patience.ts';

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
  const patience = createPatience(silenceMs, () => new CodeBoxError('timeout', 'The copying stopped.'));
  content.on('data', patience.wait).on('end', patience.wait);
  // Listening starts the flow; the consumer resumes it.
  content.pause();
  try {
    return await receive(content, AbortSignal.any([signal, patience.signal]));
  } finally {
    patience.rest();
    content.destroy();
  }
};
