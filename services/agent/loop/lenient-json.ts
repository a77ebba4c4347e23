const words: Readonly<Record<string, unknown>> = {
  true: true,
  True: true,
  false: false,
  False: false,
  null: null,
  None: null,
  undefined: null,
};

const escapes: Readonly<Record<string, string>> = { n: '\n', t: '\t', r: '\r', b: '\b', f: '\f', '\n': '' };

/**
 * Reads JSON as models write it: with quotes of any kind, line breaks and bare quotes in strings, names without
 * quotes, missing or extra commas, Python's constants, and brackets left open at the end. Throws a `SyntaxError` for
 * anything else, such as a string without an end, whose value is unknown.
 */
export const parseLenient = (text: string): unknown => {
  let at = 0;

  const fail = (): never => {
    throw new SyntaxError(`no value at character ${at}`);
  };
  const skip = () => {
    at += /^[\s,]*/.exec(text.slice(at))?.[0].length ?? 0;
  };

  /** Whether a quote here ends its string: a separator or nothing follows. */
  const isEnd = (quote: string): boolean => /^\s*([,:}\]]|$)/.test(text.slice(at + quote.length));

  const readString = (): string => {
    const quote = text.startsWith('"""', at) || text.startsWith("'''", at) ? text.slice(at, at + 3) : text.charAt(at);
    at += quote.length;
    let value = '';
    for (;;) {
      if (at >= text.length) return fail();
      if (text.startsWith(quote, at) && isEnd(quote)) break;
      const character = text.charAt(at);
      at += 1;
      if (character !== '\\') {
        value += character;
        continue;
      }
      const escaped = text.charAt(at);
      const unicode = /^u([0-9a-fA-F]{4})/.exec(text.slice(at, at + 5))?.[1];
      at += unicode ? 5 : 1;
      if (unicode) value += String.fromCharCode(Number.parseInt(unicode, 16));
      else value += escapes[escaped] ?? (/["'`\\/]/.test(escaped) ? escaped : `\\${escaped}`);
    }
    at += quote.length;
    return value;
  };

  const readWord = (): unknown => {
    const word = /^[^\s,:{}[\]"'`]+/.exec(text.slice(at))?.[0] ?? fail();
    at += word.length;
    if (Object.hasOwn(words, word)) return words[word];
    return /^-?\d+(\.\d+)?([eE][+-]?\d+)?$/.test(word) ? Number(word) : word;
  };

  const readObject = (): Record<string, unknown> => {
    const value: Record<string, unknown> = {};
    at += 1;
    for (skip(); at < text.length && text.charAt(at) !== '}'; skip()) {
      const name = /["'`]/.test(text.charAt(at)) ? readString() : String(readWord());
      skip();
      if (text.charAt(at) !== ':') fail();
      at += 1;
      Object.defineProperty(value, name, { value: readValue(), enumerable: true, configurable: true, writable: true });
    }
    at += 1;
    return value;
  };

  const readArray = (): unknown[] => {
    const value: unknown[] = [];
    at += 1;
    for (skip(); at < text.length && text.charAt(at) !== ']'; skip()) value.push(readValue());
    at += 1;
    return value;
  };

  const readValue = (): unknown => {
    skip();
    const first = text.charAt(at);
    if (first === '{') return readObject();
    if (first === '[') return readArray();
    return /["'`]/.test(first) ? readString() : readWord();
  };

  const value = readValue();
  skip();
  return at >= text.length ? value : fail();
};
