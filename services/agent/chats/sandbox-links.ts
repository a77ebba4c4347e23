import { boxPathSchema } from '#contract';

/** How models name a file of their box, in a link or bare. */
const link = /(\]\(\s*<?)?sandbox:(?:\/\/)?\/?mnt\/data\//g;
const start = 'sandbox:';
/** A link that is longer is told as it stands: no file has such a path. */
const maxLink = 4096 + 32;

/** Where the path that begins here ends: in a link of Markdown with its bracket, else with the word. */
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

/** The end of a sentence is not the end of a name. A regular expression would look for that end from each mark anew. */
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

/** The text with the address of each file that it names as `sandbox:/mnt/data/…`. What can be no file, or has no address, stays as it is. */
export const withAddresses = (text: string, addressOf: (path: string) => string | undefined): string => {
  if (!text.includes(start)) return text;
  let told = '';
  let at = 0;
  for (const found of text.matchAll(link)) {
    if (found.index < at) continue;
    const from = found.index + found[0].length;
    const end = endOfPath(text, from, found[1] !== undefined);
    const named = text.slice(from, end);
    const written = found[1] === undefined ? withoutMarks(named) : named.trimEnd();
    const path = boxPathSchema.safeParse(decoded(written));
    const address = path.success ? addressOf(path.data) : undefined;
    if (address === undefined) continue;
    told += text.slice(at, found.index) + (found[1] ?? '') + address;
    at = from + written.length;
  }
  return told + text.slice(at);
};

/** Where what may become such a link begins, when it could still go on behind the end of the text. */
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

/** Where the link begins that `opening` finds before `end`, if it is not longer than any link. */
const openedAt = (text: string, end: number, opening: RegExp): number | undefined => {
  const from = Math.max(0, end - maxLink);
  const found = opening.exec(text.slice(from, end));
  return found === null ? undefined : from + found.index;
};

/** A link's own bracket belongs to it: what comes behind decides where its path ends. */
const opens = (text: string, end: number): number => openedAt(text, end, /\](?:\(\s*<?)?$/) ?? end;

/** Passes text on in pieces that no link is cut by; what it holds back comes with the next piece, or with `flush`. */
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
