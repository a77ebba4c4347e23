import { stripVTControlCharacters } from 'node:util';
import type { ExecutionEvent } from '#contract';

/** One message that the page shows. */
export interface Result {
  type: 'message' | 'image/png' | 'image/jpeg';
  value: string;
}

const maxResults = 1000;
const maxValue = 100_000;
const maxSize = 32 * 1024 * 1024;

/** A copy, so that the whole text is not kept in memory for its first part. */
const firstPart = (text: string): string =>
  text.length > maxValue ? Buffer.from(text.slice(0, maxValue)).toString() : text;

/**
 * Results that wait to be polled; the oldest is dropped when nobody polls. `onSize` reports by how many characters they
 * have grown or shrunk.
 */
export const createResults = ({ onSize = () => {} }: { onSize?: (by: number) => void } = {}) => {
  let waiting: Result[] = [];
  let added = 0;
  let size = 0;
  const grow = (by: number) => {
    size += by;
    onSize(by);
  };
  const results = {
    /** How many results there have been in total, to see whether a run printed anything. */
    count: () => added,
    add(type: Result['type'], value: string): void {
      if (value === '') return;
      added += 1;
      const result = { type, value: type === 'message' ? firstPart(value) : value };
      waiting.push(result);
      while (waiting.length > maxResults || size + result.value.length > maxSize) {
        const oldest = waiting.shift();
        if (oldest === undefined || oldest === result) return;
        grow(-oldest.value.length);
      }
      grow(result.value.length);
    },
    drain(): Result[] {
      const drained = waiting;
      waiting = [];
      grow(-size);
      return drained;
    },
  };
  results.add('message', 'Kernel is ready.');
  return results;
};

/** The text of an output of code; empty for pictures and events without text. */
export const textOf = (event: ExecutionEvent): string => {
  switch (event.type) {
    case 'stdout':
    case 'stderr':
      return stripVTControlCharacters(event.text);
    case 'result':
    case 'display': {
      const text = event.mime['text/plain'];
      return typeof text === 'string' && !hasPicture(event.mime) ? text : '';
    }
    case 'error':
      return stripVTControlCharacters(event.traceback.join('\n') || `${event.name}: ${event.value}`);
    default:
      return '';
  }
};

/** The picture of an output that still contains it, as base64. */
export const pictureOf = (event: ExecutionEvent): Result | undefined => {
  if (event.type !== 'result' && event.type !== 'display') return undefined;
  for (const type of ['image/png', 'image/jpeg'] as const) {
    const value = event.mime[type];
    if (typeof value === 'string') return { type, value: value.replaceAll(/\s/g, '') };
  }
  return undefined;
};

const hasPicture = (mime: Record<string, unknown>): boolean =>
  Object.keys(mime).some((type) => type.startsWith('image/'));
