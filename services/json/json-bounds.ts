/** Limits for a JSON text that is parsed in one go: all other requests wait for as long as that takes. */
export interface JsonBounds {
  bytes: number;
  /** Keys and values in total. */
  values: number;
}

const maxValues = 4096;
const largeBytes = 10 * 1024 * 1024;
/** The deepest nesting of brackets. */
const maxLevels = 64;

/** A body without code, input or files. */
export const smallJson: JsonBounds = { bytes: 128 * 1024, values: maxValues };
/** A body with code, input or files. */
export const largeJson: JsonBounds = { bytes: largeBytes, values: maxValues };
/** A body with many small values: a conversation, or a table. */
export const longJson: JsonBounds = { bytes: largeBytes, values: 131_072 };
/** One message of a box: an event with everything that it displays, or a page of files. A box sends no more. */
export const boxJson: JsonBounds = { bytes: 32 * 1024 * 1024, values: 524_288 };

const [quote, backslash, comma, colon] = [...'"\\,:'].map((character) => character.charCodeAt(0));
const [openBrace, openBracket, closeBrace, closeBracket] = [...'{[}]'].map((character) => character.charCodeAt(0));
/** By byte: whether it counts outside strings. One look decides for most bytes of a text. */
const counts = new Uint8Array(256);
for (const character of '",:{[}]') counts[character.charCodeAt(0)] = 1;

/** After so many bytes of a string its end is looked for by native code, of which a call costs as much. */
const nearBytes = 64;

/** The limit that a JSON text exceeds, worded to follow a pointer; undefined when it exceeds none. Nothing is parsed for it. */
export const jsonExcess = (text: Uint8Array, { values }: JsonBounds): string | undefined => {
  const { length } = text;
  const endOf = stringEnds(text);
  let count = 1;
  let levels = 0;
  for (let at = 0; at < length && count <= values; at++) {
    const byte = text[at] ?? 0;
    if (counts[byte] === 0) continue;
    if (byte === quote) at = endOf(at + 1);
    else if (byte === comma || byte === colon) count += 1;
    else if (byte === openBrace || byte === openBracket) {
      count += 1;
      levels += 1;
      if (levels > maxLevels) return `is nested deeper than ${maxLevels} levels`;
    } else if (byte === closeBrace || byte === closeBracket) levels -= 1;
  }
  return count > values ? `has more than ${values} keys and values` : undefined;
};

/**
 * Returns a function that finds the quote that ends a string, whose content begins at `start`, or the length of the text when none does. Strings
 * have to be given in their order: what is found for one is kept for the next.
 */
const stringEnds = (text: Uint8Array) => {
  const next = (byte: number | undefined, from: number): number => {
    const found = text.indexOf(byte ?? 0, from);
    return found < 0 ? text.length : found;
  };
  let [nextQuote, nextBackslash] = [-1, -1];
  return (start: number): number => {
    let at = start;
    while (at < text.length) {
      for (const near = at + nearBytes; at < near; at++) {
        const byte = text[at];
        if (byte === quote) return at;
        if (byte === backslash) at += 1;
      }
      if (nextQuote < at) nextQuote = next(quote, at);
      if (nextBackslash < at) nextBackslash = next(backslash, at);
      at = Math.min(nextQuote, nextBackslash);
    }
    return text.length;
  };
};
