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

const [quote = 0, backslash = 0, comma, colon] = [...'"\\,:'].map((character) => character.charCodeAt(0));
const [openBrace, openBracket, closeBrace, closeBracket] = [...'{[}]'].map((character) => character.charCodeAt(0));

/** After so many bytes of a string its end is looked for by native code, of which a call costs as much. */
const nearBytes = 64;

/** The limit that a JSON text exceeds, worded to follow a pointer; undefined when it exceeds none. Nothing is parsed for it. */
export const jsonExcess = (text: Uint8Array, { values }: JsonBounds): string | undefined => {
  const bytes = Buffer.from(text.buffer, text.byteOffset, text.length);
  const next = (byte: number, from: number): number => {
    const at = bytes.indexOf(byte, from);
    return at < 0 ? bytes.length : at;
  };
  let [nextQuote, nextBackslash] = [-1, -1];
  let count = 1;
  let levels = 0;
  let isText = false;
  let near = 0;
  for (let at = 0; at < bytes.length; at++) {
    if (isText && ++near === nearBytes) {
      near = 0;
      if (nextQuote < at) nextQuote = next(quote, at);
      if (nextBackslash < at) nextBackslash = next(backslash, at);
      at = Math.min(nextQuote, nextBackslash);
    }
    const byte = bytes[at];
    if (isText) {
      if (byte === backslash) at += 1;
      else if (byte === quote) isText = false;
    } else if (byte === quote) {
      isText = true;
      near = 0;
    } else if (byte === comma || byte === colon) count += 1;
    else if (byte === openBrace || byte === openBracket) {
      count += 1;
      levels += 1;
      if (levels > maxLevels) return `is nested deeper than ${maxLevels} levels`;
    } else if (byte === closeBrace || byte === closeBracket) levels -= 1;
    if (count > values) return `has more than ${values} keys and values`;
  }
  return undefined;
};
