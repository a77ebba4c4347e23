/**
 * File names are bytes, and not always UTF-8. In a path of this API, a byte that is not part of a character becomes a
 * lone surrogate from U+DC80 to U+DCFF, as in Python (PEP 383); in a URL it is that byte, percent-encoded.
 */
const loneByte = /[\udc80-\udcff]/u;
const escapes = /(?:%[0-9a-f]{2})+/gi;
const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

/**
 * Encodes a path for a URL: each segment is percent-encoded. Throws a URIError for lone surrogates other than those
 * above.
 */
export const encodePath = (path: string): string =>
  path
    .split(/([/\udc80-\udcff])/u)
    .map((part) =>
      part === '/' ? part : loneByte.test(part) ? toEscape(part.charCodeAt(0) & 0xff) : encodeURIComponent(part),
    )
    .join('');

/** Decodes the path in a URL. Throws a URIError when a `%` is not followed by two hexadecimal digits. */
export const decodePath = (encoded: string): string => {
  try {
    return decodeURIComponent(encoded);
  } catch (error) {
    if (/%(?![0-9a-f]{2})/i.test(encoded)) throw error;
    return encoded.replaceAll(escapes, (run) =>
      decodeBytes(Uint8Array.from(run.slice(1).split('%'), (hex) => Number.parseInt(hex, 16))),
    );
  }
};

const toEscape = (byte: number): string => `%${byte.toString(16).toUpperCase()}`;

const decodeBytes = (bytes: Uint8Array): string => {
  let text = '';
  for (let at = 0; at < bytes.length; ) {
    const character = decodeCharacter(bytes, at);
    text += character?.text ?? String.fromCharCode(0xdc00 + (bytes[at] ?? 0));
    at += character?.length ?? 1;
  }
  return text;
};

/** The character that begins at `at`; undefined when there is none. */
const decodeCharacter = (bytes: Uint8Array, at: number): { text: string; length: number } | undefined => {
  const lead = bytes[at] ?? 0;
  const length = lead < 0x80 ? 1 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
  try {
    return { text: utf8.decode(bytes.subarray(at, at + length)), length };
  } catch {
    return undefined;
  }
};
