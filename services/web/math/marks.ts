/** Finds the next `mark` after a position, for increasing positions: it reads the text once. */
const createFinder = (text: string, mark: string) => {
  let found = -2;
  return (from: number): number => {
    if (found !== -1 && found < from) found = text.indexOf(mark, from);
    return found;
  };
};

/** The runs of backticks of a text by length: a code span ends at the next run of the same length as its first. */
const createTicks = (text: string) => {
  const starts = new Map<number, number[]>();
  for (const { 0: run, index } of text.matchAll(/`+/g)) {
    const same = starts.get(run.length);
    if (same) same.push(index);
    else starts.set(run.length, [index]);
  }
  for (const same of starts.values()) same.reverse();
  /** The end of a span that begins at `at` with `length` backticks; undefined when there is none. */
  return (at: number, length: number): number | undefined => {
    const same = starts.get(length) ?? [];
    while ((same.at(-1) ?? at + 1) <= at) same.pop();
    const end = same.at(-1);
    return end === undefined ? undefined : end + length;
  };
};

/** The end of the code block that begins at `at`, after its last line; the end of the text when it is not closed. */
const endOfFence = (text: string, at: number, fence: string): number => {
  const closing = new RegExp(`^ {0,3}${fence[0]}{${fence.length},}[ \\t]*$`);
  for (let line = text.indexOf('\n', at); line !== -1; ) {
    const next = text.indexOf('\n', line + 1);
    const end = next === -1 ? text.length : next;
    if (closing.test(text.slice(line + 1, end))) return end;
    line = next;
  }
  return text.length;
};

const maxLength = 5000;
const fencePattern = /(?<=^|\n) {0,3}(`{3,}|~{3,})/y;
const ticksPattern = /`+/y;
// As in Pandoc: no blank at the inner ends, and no digit after it, so that amounts of money stay unchanged.
const dollarPattern = /\$(?![\s$])([^$\n]{0,1000}?[^\s$\\])\$(?![\d$])/y;
/** Characters that may begin something. */
const starts = /[`~\\$ ]/g;

const oneLine = (tex: string): string => tex.trim().replace(/\s*\n\s*/g, ' ');

/**
 * Rewrites Markdown so that every formula is between double dollars, whichever notation the model used: `\(…\)`,
 * `\[…\]`, `$…$` or `$$…$$`. A formula that fills its lines becomes a block. Code stays unchanged. The time grows
 * linearly with the length of the text.
 */
export const withMathMarks = (text: string): string => {
  const endOfTicks = createTicks(text);
  const endOf = {
    square: createFinder(text, '\\]'),
    round: createFinder(text, '\\)'),
    dollars: createFinder(text, '$$'),
  };
  const pieces: string[] = [];
  let copied = 0;

  const match = (pattern: RegExp, at: number) => {
    pattern.lastIndex = at;
    return pattern.exec(text);
  };
  const put = (at: number, end: number, formula: string) => {
    pieces.push(text.slice(copied, at), formula);
    copied = end;
    return end;
  };
  const asBlock = (at: number, end: number, tex: string): string => {
    const before =
      text
        .slice(Math.max(0, at - 80), at)
        .split('\n')
        .at(-1) ?? '';
    const behind = text.slice(end, end + 80).split('\n', 1)[0] ?? '';
    if (!/^[ \t>]*$/.test(before) || behind.trim() !== '') return `$$${oneLine(tex)}$$`;
    return ['$$', ...tex.trim().split(/\s*\n\s*/), '$$'].join(`\n${before}`);
  };
  /** The end of the formula or code that begins at `at`; undefined for anything else. */
  const pass = (at: number): number | undefined => {
    const fence = match(fencePattern, at)?.[1];
    if (fence !== undefined) return endOfFence(text, at, fence);
    const ticks = match(ticksPattern, at)?.[0].length;
    if (ticks !== undefined) return endOfTicks(at, ticks) ?? at + ticks;
    const two = text.slice(at, at + 2);
    const kind = two === '\\[' ? 'square' : two === '\\(' ? 'round' : two === '$$' ? 'dollars' : undefined;
    if (kind === undefined) {
      if (text[at] === '\\') return at + 2;
      if (text[at] !== '$' || /\w/.test(text[at - 1] ?? '')) return undefined;
      const [whole = '', tex] = match(dollarPattern, at) ?? [];
      return tex === undefined ? undefined : put(at, at + whole.length, `$$${tex}$$`);
    }
    const close = endOf[kind](at + 2);
    const tex = close - at > maxLength ? '' : text.slice(at + 2, close);
    if (close === -1 || tex.trim() === '') return at + 2;
    if (kind !== 'round') return put(at, close + 2, asBlock(at, close + 2, tex));
    return /\n\s*\n/.test(tex) ? at + 2 : put(at, close + 2, `$$${oneLine(tex)}$$`);
  };

  for (let at = 0; at < text.length; ) {
    starts.lastIndex = at;
    const found = starts.exec(text)?.index;
    if (found === undefined) break;
    at = pass(found) ?? found + 1;
  }
  return pieces.join('') + text.slice(copied);
};
