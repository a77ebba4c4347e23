import type { ExecutionEvent } from '#contract';
import type { Ran } from '../loop/workspace.ts';
import { createRunText } from './run-text.ts';

const ownFolder = '.codebox/';
const pictures = /^image\//;
const beginOfEarlier = '\n[written by a thread or task of earlier code:]\n';
const endOfEarlier = '\n[written by this code:]\n';

/** The text of a MIME bundle; pictures are counted, never kept. */
const wordsOf = (mime: Record<string, unknown>): { text: string; isPicture: boolean } => {
  const isPicture = Object.keys(mime).some((type) => pictures.test(type));
  const plain = mime['text/plain'] ?? mime['text/markdown'];
  if (typeof plain === 'string' && !isPicture) return { text: plain.endsWith('\n') ? plain : `${plain}\n`, isPicture };
  return { text: isPicture ? '' : `[shown: ${Object.keys(mime).join(', ')}]\n`, isPicture };
};

/** Turns the events of one run into the result that the loop receives at its end, in bounded memory. */
export const createGathered = () => {
  const text = createRunText();
  let images = 0;
  let origin: string | undefined;
  let error: Ran['error'] = null;
  return {
    add(event: ExecutionEvent): void {
      switch (event.type) {
        case 'stdout':
        case 'stderr':
          if (event.origin !== origin) text.add(event.origin === undefined ? endOfEarlier : beginOfEarlier);
          origin = event.origin;
          text.add(event.text);
          break;
        case 'truncated':
          text.add(`\n[… ${event.droppedBytes} bytes are left out here …]\n`);
          break;
        case 'result':
        case 'display': {
          const words = wordsOf(event.mime);
          text.add(words.text);
          if (words.isPicture) images += 1;
          break;
        }
        case 'error':
          error = {
            name: event.name,
            value: event.value,
            traceback: event.traceback,
            ...(event.hint && { hint: event.hint }),
          };
          break;
      }
    },
    end: (execution: string, done: Extract<ExecutionEvent, { type: 'done' }>): Ran => {
      const others = (paths: readonly string[] = []) => paths.filter((path) => !path.startsWith(ownFolder));
      const { created, modified, deleted } = done.files ?? {};
      return {
        execution,
        status: done.status,
        durationMs: done.durationMs,
        text: text.read(),
        error,
        stateLost: done.stateLost,
        cause: done.cause?.detail ?? null,
        images,
        files: { created: others(created), modified: others(modified), deleted: others(deleted) },
      };
    },
    note: text.add,
  };
};
