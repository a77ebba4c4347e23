import { stripVTControlCharacters } from 'node:util';
import type { AnswerEvent, ExecutionEvent } from '#contract';

/** One piece of code that an answer has run, with all of its text. */
export interface CodeLogEntry {
  language: string;
  code: string;
  /** stdout, stderr, results and errors in order; of long ones the head and the tail. */
  output: string;
  /** How the run ended; null when it did not run. */
  status: string | null;
}

const maxOutput = 64 * 1024;

/** Notes down the code of an answer and what it printed, from its events. */
export const createCodeLog = () => {
  const entries = new Map<string, CodeLogEntry>();
  return {
    entries: (): CodeLogEntry[] =>
      [...entries.values()].map((entry) => ({ ...entry, output: headAndTail(entry.output) })),
    of: (call: string): CodeLogEntry | undefined => {
      const entry = entries.get(call);
      return entry && { ...entry, output: headAndTail(entry.output) };
    },
    add(event: AnswerEvent): void {
      if (event.type === 'code') {
        const { language, code } = event;
        const known = entries.get(event.call);
        entries.set(event.call, { language, code, output: known?.output ?? '', status: known?.status ?? null });
        return;
      }
      const entry = event.type === 'output' || event.type === 'ran' ? entries.get(event.call) : undefined;
      if (entry === undefined) return;
      if (event.type === 'ran') entry.status = event.status;
      // Twice the bound is enough for both ends: what falls out of the middle is never shown.
      if (event.type === 'output') entry.output = shorten(entry.output + textOf(event.event, entry.output));
    },
  };
};

/** What one output says as plain text, without colours. `before` is what stands before it. */
const textOf = (event: ExecutionEvent, before: string): string => {
  const line = (text: string) => (before === '' || before.endsWith('\n') ? `${text}\n` : `\n${text}\n`);
  switch (event.type) {
    case 'stdout':
    case 'stderr':
      return stripVTControlCharacters(event.text);
    case 'result':
    case 'display':
    case 'display_update': {
      const text = event.mime['text/plain'];
      return typeof text === 'string' ? line(text) : '';
    }
    case 'error': {
      const text = event.traceback.length > 0 ? event.traceback.join('\n') : `${event.name}: ${event.value}`;
      return line(stripVTControlCharacters(text));
    }
    case 'install':
      return line(event.text);
    case 'truncated':
      return line(`[${event.droppedBytes} bytes were left out]`);
    default:
      return '';
  }
};

const shorten = (text: string): string =>
  text.length <= 4 * maxOutput ? text : `${text.slice(0, maxOutput)}${text.slice(-maxOutput)}`;

const headAndTail = (text: string): string => {
  if (text.length <= maxOutput) return text;
  const half = maxOutput / 2;
  return `${text.slice(0, half)}\n[…]\n${text.slice(-half)}`;
};
