import fc from 'fast-check';

/** Strings of any code units: NUL, lone surrogates, and sequences that a path or query parser could misread. */
export const anyText = fc.oneof(
  fc.string({ unit: 'binary', maxLength: 12 }),
  fc
    .array(fc.constantFrom('\0', '\ud800', '\udfff', '../', '/', '%00', '%', '=', 'a', '\u{1f600}'), { maxLength: 8 })
    .map((parts) => parts.join('')),
);
/** Percent-encodes a string for a URL by hand, because `encodeURIComponent` refuses lone surrogates. */
export const encode = (text: string) =>
  [...Buffer.from(text, 'utf8')].map((byte) => `%${byte.toString(16).padStart(2, '0')}`).join('');
