import { stripVTControlCharacters } from 'node:util';
import type { AnswerEvent, ExecutionEvent } from '#contract';

/** One piece of code that an answer ran, with its output as text. */
export interface CodeLogEntry {
  language: string;
  code: string;
  /** stdout, stderr, results and errors in order; long output is cut to its head and tail. */
  output: string;
  /** How the run ended; null when it did not run. */
  status: string | null;
}

const maxOutput = 64 * 1024;

/** Collects the code of an answer and its output from the events. Code that runs again becomes another entry. */
export const createCodeLog = () => {
  const entries: CodeLogEntry[] = [];
  const latest = new Map<string, CodeLogEntry>();
  const toEntry = (entry: CodeLogEntry): CodeLogEntry => ({ ...entry, output: headAndTail(entry.output) });

  return {
    entries: (): CodeLogEntry[] => entries.map(toEntry),

    /** The latest run of a call. */
    of(call: string): CodeLogEntry | undefined {
      const entry = latest.get(call);
      return entry && toEntry(entry);
    },

    add(event: AnswerEvent): void {
      if (!('call' in event) || event.call === null) return;
      const entry = latest.get(event.call);
      if (event.type === 'code') {
        const { call, language, code, state } = event;
        if (entry && !(entry.status !== null && state === 'running')) return;
        const fresh = { language, code, output: '', status: null };
        latest.set(call, fresh);
        entries.push(fresh);
      }
      if (entry === undefined) return;
      if (event.type === 'ran') entry.status = event.status;
      if (event.type === 'output') entry.output = shorten(entry.output + textOf(event.event, entry.output));
    },
  };
};

/** The text of one output, without colours. `before` is the text that precedes it. */
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

/** Keeps more than the final size of either end, so that not every event needs a cut. */
const shorten = (text: string): string =>
  text.length <= 4 * maxOutput ? text : `${text.slice(0, maxOutput)}${text.slice(-maxOutput)}`;

const headAndTail = (text: string): string => {
  if (text.length <= maxOutput) return text;
  const half = maxOutput / 2;
  return `${text.slice(0, half)}\n[…]\n${text.slice(-half)}`;
};
