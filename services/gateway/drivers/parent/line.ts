import { once } from 'node:events';
import type { Duplex, Readable } from 'node:stream';

const maxLine = 4096;
const maxErrorLength = 2000;

/** Resolves with the first line of a stream, of which nothing else is read; throws when it ends before. */
export const nextLine = async (stream: Readable | Duplex, signal: AbortSignal): Promise<string> => {
  let line = '';
  while (!line.endsWith('\n') && line.length < maxLine) {
    const piece: unknown = stream.read();
    if (piece !== null) line += String(piece);
    else if (stream.readableEnded || stream.destroyed) throw new Error('the other side has ended');
    else
      await Promise.race([
        once(stream, 'readable', { signal }),
        once(stream, 'end', { signal }),
        once(stream, 'close', { signal }),
      ]);
  }
  return line.trimEnd();
};

/** Resolves when the first line is `ready`; otherwise throws an Error with that line, which says why. */
export const untilReady = async (stream: Readable | Duplex, signal: AbortSignal): Promise<void> => {
  const line = await nextLine(stream, signal);
  if (line !== 'ready') throw new Error(line);
};

/** Resolves once a parent that is being started is ready; throws an Error with the last of its error output. */
export const untilStarted = async (output: Readable, errors: Readable, signal: AbortSignal): Promise<void> => {
  let last = '';
  errors.on('data', (text) => {
    last = `${last}${text}`.slice(-maxErrorLength);
  });
  await untilReady(output, signal).catch((cause: unknown) => {
    throw new Error(`the parent of boxes did not start: ${last.trim()}`, { cause });
  });
};
