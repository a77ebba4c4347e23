import type { Chat } from '#contract';

const units = ['bytes', 'KB', 'MB', 'GB', 'TB'];

/** A size for people: `12 bytes`, `3.4 MB`. */
export const bytesText = (bytes: number): string => {
  const step = Math.min(Math.floor(Math.log10(Math.max(bytes, 1)) / 3), units.length - 1);
  const value = bytes / 1000 ** step;
  return `${value < 10 && step > 0 ? value.toFixed(1) : Math.round(value)} ${units[step] ?? ''}`;
};

export const countText = (count: number): string => count.toLocaleString('en');

export const durationText = (ms: number): string => {
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 60_000) return `${(ms / 1000).toFixed(1)} s`;
  return `${Math.floor(ms / 60_000)} min ${Math.round((ms % 60_000) / 1000)} s`;
};

/** The end of a run, for readers who did not write its code. */
export const runText = (status: string): string => {
  const texts: Record<string, string> = {
    ok: 'Done',
    error: 'Failed',
    timeout: 'Took too long',
    interrupted: 'Interrupted',
    oom: 'Out of memory',
    killed: 'Ended from outside',
    output_limit: 'Printed too much',
    lost: 'Lost',
  };
  return texts[status] ?? status;
};

const names: Record<string, string> = {
  python: 'Python',
  javascript: 'JavaScript',
  typescript: 'TypeScript',
  bash: 'Bash',
};

export const languageText = (language: string): string => names[language] ?? language;

/** The title of a chat; a chat without one is named by its date. */
export const chatTitle = ({ title, createdAt }: Chat): string => {
  const format = { day: 'numeric', month: 'short', hour: '2-digit', minute: '2-digit' } as const;
  return title ?? `Untitled, ${new Date(createdAt).toLocaleString(undefined, format)}`;
};
