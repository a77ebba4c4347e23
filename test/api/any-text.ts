import fc from 'fast-check';

/** Texts of all code units: NUL, lone surrogates, what a path or a query could mistake. */
export const anyText = fc.oneof(
  fc.string({ unit: 'binary', maxLength: 12 }),
  fc
    .array(fc.constantFrom('\0', '\ud800', '\udfff', '../', '/', '%00', '%', '=', 'a', '\u{1f600}'), { maxLength: 8 })
    .map((parts) => parts.join('')),
);
/** As a URL may carry it: percent-encoded by hand, because `encodeURIComponent` refuses lone surrogates. */
export const encode = (text: string) =>
  [...Buffer.from(text, 'utf8')].map((byte) => `%${byte.toString(16).padStart(2, '0')}`).join('');
