import type { RunError } from '#contract';

const maxLine = 300;

/**
 * Two mistakes are the same if their kind, their message and the last line of their traceback are equal, apart from
 * variable details.
 */
const normalise = (text: string): string =>
  text
    // biome-ignore lint/suspicious/noControlCharactersInRegex: colours of tracebacks.
    .replace(/\u001b\[[0-9;]*m/g, '')
    .replace(/0x[0-9a-f]+/gi, '0x')
    .replace(/\b(line |In ?\[)\d+/g, '$1')
    .replace(/\s+/g, ' ')
    .trim()
    .slice(0, maxLine);

/** Counts how often the same mistake is made within one answer. */
export const createMistakes = () => {
  const counts = new Map<string, number>();
  const note = (kind: string): number => {
    const count = (counts.get(kind) ?? 0) + 1;
    counts.set(kind, count);
    return count;
  };
  return {
    /** Records a fault of the call itself; returns how often it has been made so far. */
    noteFault: (fault: string): number => note(normalise(fault)),
    /** Records an error of code; returns how often it has been made so far. */
    noteError: ({ name, value, traceback }: RunError): number =>
      note(normalise(`${name}: ${value} ${traceback.join('\n').trimEnd().split('\n').at(-1)}`)),
  };
};
