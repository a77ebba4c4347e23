/** Text of one style. Colours are the sixteen of a terminal by number, or CSS colours. */
export interface Span {
  text: string;
  color: string | null;
  background: string | null;
  isBold: boolean;
  isDim: boolean;
  isItalic: boolean;
  isUnderlined: boolean;
}

type Look = Omit<Span, 'text'>;

const plain: Look = {
  color: null,
  background: null,
  isBold: false,
  isDim: false,
  isItalic: false,
  isUnderlined: false,
};

// biome-ignore lint/suspicious/noControlCharactersInRegex: the pattern finds escape sequences.
const sequence = /\x1b\[([0-9;:]*)m|\x1b\[[0-9;?]*[A-Za-ln-z]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[@-Z\\-_]/g;

/** Parses terminal text into spans: colours are kept, other escape sequences are dropped. */
export const parseAnsi = (text: string): Span[] => {
  const spans: Span[] = [];
  let look = plain;
  let end = 0;
  const push = (part: string) => {
    if (part !== '') spans.push({ ...look, text: part });
  };
  for (const match of text.matchAll(sequence)) {
    push(text.slice(end, match.index));
    end = match.index + match[0].length;
    if (match[1] !== undefined) look = restyled(look, match[1]);
  }
  push(text.slice(end));
  return spans;
};

const named = (index: number): string => `var(--ansi-${index})`;

/** One of the 256 indexed colours. */
const indexed = (index: number): string => {
  if (index < 16) return named(index);
  if (index > 231) {
    const grey = 8 + (index - 232) * 10;
    return `rgb(${grey} ${grey} ${grey})`;
  }
  const level = (step: number) => (step === 0 ? 0 : 55 + step * 40);
  const cube = index - 16;
  return `rgb(${level(Math.floor(cube / 36))} ${level(Math.floor(cube / 6) % 6)} ${level(cube % 6)})`;
};

const byte = (value: number | undefined): number => Math.min(Math.max(value ?? 0, 0), 255);

const restyled = (look: Look, parameters: string): Look => {
  const codes = parameters.split(/[;:]/).map(Number);
  let next = look;
  for (let at = 0; at < codes.length; at++) {
    const code = codes[at] ?? 0;
    if (code === 38 || code === 48) {
      const isTrue = codes[at + 1] === 2;
      const color = isTrue
        ? `rgb(${byte(codes[at + 2])} ${byte(codes[at + 3])} ${byte(codes[at + 4])})`
        : indexed(byte(codes[at + 2]));
      next = { ...next, [code === 38 ? 'color' : 'background']: color };
      at += isTrue ? 4 : 2;
    } else next = withCode(next, code);
  }
  return next;
};

const withCode = (look: Look, code: number): Look => {
  if (code === 0) return plain;
  if (code === 1) return { ...look, isBold: true };
  if (code === 2) return { ...look, isDim: true };
  if (code === 3) return { ...look, isItalic: true };
  if (code === 4) return { ...look, isUnderlined: true };
  if (code === 22) return { ...look, isBold: false, isDim: false };
  if (code === 23) return { ...look, isItalic: false };
  if (code === 24) return { ...look, isUnderlined: false };
  if (code >= 30 && code <= 37) return { ...look, color: named(code - 30) };
  if (code === 39) return { ...look, color: null };
  if (code >= 40 && code <= 47) return { ...look, background: named(code - 40) };
  if (code === 49) return { ...look, background: null };
  if (code >= 90 && code <= 97) return { ...look, color: named(code - 82) };
  if (code >= 100 && code <= 107) return { ...look, background: named(code - 92) };
  return look;
};
