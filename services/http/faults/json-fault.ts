/** Where a text stops being JSON, and the usual cause. */
export interface JsonFault {
  /** In UTF-16 units from 0. */
  offset: number;
  /** From 1. */
  line: number;
  column: number;
  cause: string;
}

type Expected = 'value' | 'value or ]' | 'key' | 'key or }' | ':' | ', or end' | 'nothing';

interface Break {
  offset: number;
  expected: Expected | 'string';
}

const space = /[ \t\r\n]*/y;
const word = /-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?|true|false|null/y;
const escaped = /\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})/y;

/** The end of the pattern's match at this position; the position itself when it does not match. */
const past = (pattern: RegExp, text: string, offset: number): number => {
  pattern.lastIndex = offset;
  return pattern.test(text) ? pattern.lastIndex : offset;
};

/** The end of the string that begins here, or where it breaks. */
const readString = (text: string, start: number): { end: number } | Break => {
  let at = start + 1;
  for (;;) {
    const unit = text.charCodeAt(at);
    if (unit === 0x22) return { end: at + 1 };
    const next = unit === 0x5c ? past(escaped, text, at) : unit >= 0x20 ? at + 1 : at;
    // A control character, an invalid escape, or the end of the text, whose code unit is NaN.
    if (next === at) return { offset: at, expected: 'string' };
    at = next;
  }
};

/** Where the text first violates JSON's grammar; undefined when it does not. */
const findBreak = (text: string): Break | undefined => {
  const open: ('}' | ']')[] = [];
  let expected: Expected = 'value';
  const afterValue = (): Expected => (open.length === 0 ? 'nothing' : ', or end');
  let at = 0;
  for (;;) {
    at = past(space, text, at);
    const offset = at;
    const character = text.charAt(at);
    const isKey: boolean = expected === 'key' || expected === 'key or }';
    const isValue: boolean = expected === 'value' || expected === 'value or ]';
    const mayClose: boolean = expected === ', or end' || expected === 'value or ]' || expected === 'key or }';
    at += 1;
    if (character === '') return expected === 'nothing' ? undefined : { offset, expected };
    if (character === '"' && (isKey || isValue)) {
      const string = readString(text, offset);
      if (!('end' in string)) return string;
      at = string.end;
      expected = isKey ? ':' : afterValue();
    } else if (character === '{' && isValue) {
      open.push('}');
      expected = 'key or }';
    } else if (character === '[' && isValue) {
      open.push(']');
      expected = 'value or ]';
    } else if (character === open.at(-1) && mayClose) {
      open.pop();
      expected = afterValue();
    } else if (character === ',' && expected === ', or end') expected = open.at(-1) === '}' ? 'key' : 'value';
    else if (character === ':' && expected === ':') expected = 'value';
    else {
      at = isValue ? past(word, text, offset) : offset;
      if (at === offset) return { offset, expected };
      expected = afterValue();
    }
  }
};

const stringCause = (character: string): string => {
  if (character === '') return 'it ends inside a string, which needs a closing "';
  if (character === '\n' || character === '\r')
    return 'there is a line break inside a string, which JSON writes as \\n';
  if (character === '\t') return 'there is a tab inside a string, which JSON writes as \\t';
  if (character === '\\') return 'there is a \\ inside a string, which JSON writes as \\\\';
  return 'there is a control character inside a string';
};

const foreignWords: Record<string, string> = {
  True: 'true',
  False: 'false',
  None: 'null',
  undefined: 'null',
  NaN: 'null',
  Infinity: 'null',
};

/** The usual mistake behind such a text. */
const causeOf = (text: string, { offset, expected }: Break): string => {
  const rest = text.slice(offset, offset + 64);
  const character = rest.charAt(0);
  const before = text
    .slice(Math.max(0, offset - 64), offset)
    .trimEnd()
    .at(-1);
  if (expected === 'string') return stringCause(character);
  if (before === undefined) {
    if (character === '<') return 'it is HTML or XML';
    if (/^(--|[\w.%+-]+=)/.test(rest)) return 'it is a form';
    if (character === '') return 'there is nothing in it';
  }
  if (character === '') return 'it ends before a bracket is closed';
  if (character === "'") return 'it has \' where JSON takes " only';
  if (before === ',' && /[}\]]/.test(character)) return 'there is a comma behind the last item';
  if (/^(\/[/*]|#)/.test(rest)) return 'JSON has no comments';
  if (expected === 'nothing') return 'there is more behind its end';
  if (before === '"') {
    if (expected === ':') return 'a : is missing behind a key, or a " inside a key is not written as \\"';
    if (!/["{[]/.test(character)) return 'a " inside a string is not written as \\"';
  }
  if (expected === ', or end') return 'a comma is missing, or a bracket of the other kind';
  const [name = ''] = /^[\p{L}_$][\w$]*/u.exec(rest) ?? [];
  if (expected.startsWith('key')) return name === '' ? 'a key is missing' : 'a key is not in double quotes';
  if (Object.hasOwn(foreignWords, name)) return `JSON has no ${name}, it writes ${foreignWords[name]}`;
  if (name !== '') return before === undefined ? 'it is no JSON at all' : 'a text is not in double quotes';
  return 'a value is missing';
};

/** Finds the first fault that keeps a text from being JSON, in one pass; undefined when it is JSON. */
export const findJsonFault = (text: string): JsonFault | undefined => {
  const found = findBreak(text);
  if (!found) return undefined;
  const { offset } = found;
  let line = 1;
  let lineStart = 0;
  for (let at = text.indexOf('\n'); at >= 0 && at < offset; at = text.indexOf('\n', at + 1)) {
    line += 1;
    lineStart = at + 1;
  }
  return { offset, line, column: offset - lineStart + 1, cause: causeOf(text, found) };
};
