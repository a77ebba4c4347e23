import { boxPathSchema } from '#contract';

/** How models refer to a file of their box, in a link or bare. */
const link = /(\]\(\s*<?)?sandbox:(?:\/\/)?\/?mnt\/data\//g;
const start = 'sandbox:';
/** A longer link is passed on unchanged: no file has such a path. */
const maxLink = 4096 + 32;
/** A text with more links is none that somebody reads: the others are passed on unchanged. */
const maxLinks = 5000;

/** Where the path ends that begins at `from`: in a Markdown link at its bracket, otherwise at the end of the word. */
const endOfPath = (text: string, from: number, isInLink: boolean): number => {
  let depth = 0;
  for (let at = from; at < text.length; at++) {
    const mark = text[at] ?? '';
    if (text.startsWith(start, at) || text.startsWith('](', at)) return at;
    if (mark === '\n' || mark === '<' || mark === '>' || mark === '"') return at;
    if (!isInLink && /[\s'`\]]/.test(mark)) return at;
    if (mark === '(') depth += 1;
    if (mark === ')' && --depth < 0) return at;
  }
  return text.length;
};

/** Drops trailing punctuation, which is not part of a name. A regular expression would take quadratic time here. */
const withoutMarks = (text: string): string => {
  let end = text.length;
  while (end > 0 && '.,;:!?*_'.includes(text.charAt(end - 1))) end -= 1;
  return text.slice(0, end);
};

const decoded = (path: string): string => {
  try {
    return decodeURIComponent(path);
  } catch {
    return path;
  }
};

/**
 * Replaces each `sandbox:/mnt/data/…` with the URL of the file. Text that is not a file, or that has no URL, stays
 * unchanged.
 */
export const withAddresses = (text: string, addressOf: (path: string) => string | undefined): string => {
  if (!text.includes(start)) return text;
  let rendered = '';
  let at = 0;
  let links = 0;
  for (const found of text.matchAll(link)) {
    if (++links > maxLinks) break;
    if (found.index < at) continue;
    const from = found.index + found[0].length;
    const end = endOfPath(text, from, found[1] !== undefined);
    const named = text.slice(from, end);
    const written = found[1] === undefined ? withoutMarks(named) : named.trimEnd();
    const path = boxPathSchema.safeParse(decoded(written));
    const address = path.success ? addressOf(path.data) : undefined;
    if (address === undefined) continue;
    rendered += text.slice(at, found.index) + (found[1] ?? '') + address;
    at = from + written.length;
  }
  return rendered + text.slice(at);
};

/** Where a potential link begins that the end of the text may have cut. */
const unfinished = (text: string): number => {
  const begun = text.lastIndexOf(start);
  if (begun >= 0 && text.length - begun < maxLink) {
    const opening = openedAt(text, begun, /\]\(\s*<?$/);
    if (endOfPath(text, begun + start.length, opening !== undefined) === text.length) return opening ?? begun;
  }
  for (let length = Math.min(start.length - 1, text.length); length > 0; length--)
    if (text.endsWith(start.slice(0, length))) return opens(text, text.length - length);
  return opens(text, text.length);
};

/** Where the link begins that `opening` finds before `end`, if it is within the maximum length. */
const openedAt = (text: string, end: number, opening: RegExp): number | undefined => {
  const from = Math.max(0, end - maxLink);
  const found = opening.exec(text.slice(from, end));
  return found === null ? undefined : from + found.index;
};

/** The bracket before belongs to the link: what follows it decides where the path ends. */
const opens = (text: string, end: number): number => openedAt(text, end, /\](?:\(\s*<?)?$/) ?? end;

/**
 * Passes text on in pieces that never cut a link; text that is held back comes with the next piece, or with `flush`.
 */
export const createWholeLinks = () => {
  let held = '';
  return {
    next(text: string): string {
      held += text;
      const ready = held.slice(0, unfinished(held));
      held = held.slice(ready.length);
      return ready;
    },
    flush(): string {
      const rest = held;
      held = '';
      return rest;
    },
  };
};
