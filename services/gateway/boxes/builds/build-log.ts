import { setTimeout as sleep } from 'node:timers/promises';
import { toPlain } from '#contract';
import type { BuildStore, LogEntry } from '../../store/templates/builds.ts';

const flushMs = 500;
/** Beyond this, output of a build is left out of its log. */
const maxCharacters = 1024 * 1024;
const maxEntryCharacters = 65_536;

/** Writes the log of a build in batches: what is printed within half a second is one entry. */
export const createBuildLog = ({ log }: Pick<BuildStore, 'log'>, version: string) => {
  const pending: Pick<LogEntry, 'type' | 'text'>[] = [];
  /** How many of them are being written; they change no more. */
  let writes = 0;
  let left = maxCharacters;
  let writing: Promise<void> = Promise.resolve();
  let isDue = false;

  const write = async (): Promise<void> => {
    writes = pending.length;
    try {
      await log(version, pending.slice(0, writes));
      pending.splice(0, writes);
    } finally {
      writes = 0;
    }
  };
  const flush = (): Promise<void> => {
    writing = writing.then(write, write);
    return writing;
  };
  const flushSoon = () => {
    if (isDue) return;
    isDue = true;
    void sleep(flushMs, undefined, { ref: false }).then(() => {
      isDue = false;
      // A failure shows when the build flushes its log at the end.
      flush().catch(() => {});
    });
  };

  return {
    step(text: string): void {
      pending.push({ type: 'step', text: toPlain(text.slice(0, maxEntryCharacters)) });
      flushSoon();
    },
    output(text: string): void {
      if (left <= 0) return;
      const last = pending.length > writes ? pending.at(-1) : undefined;
      const part = toPlain(text.slice(0, left));
      left -= part.length;
      const note = left > 0 ? '' : '\n[The rest of the output is left out.]\n';
      if (last?.type === 'output' && last.text.length + part.length <= maxEntryCharacters) last.text += part + note;
      else pending.push({ type: 'output', text: part + note });
      flushSoon();
    },
    flush,
  };
};

export type BuildLog = ReturnType<typeof createBuildLog>;
