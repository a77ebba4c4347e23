import fc from 'fast-check';
import { expect, test } from 'vitest';
import { decodePath, encodePath } from './path-bytes.ts';

test('any bytes survive the conversion from a URL to a path and back', () => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 40 }), (bytes) => {
      const path = decodePath([...bytes].map((byte) => `%${byte.toString(16).padStart(2, '0')}`).join(''));
      expect(Buffer.from(unescapeBytes(encodePath(path)))).toEqual(Buffer.from(bytes));
    }),
  );
});

test('any text is encoded as encodeURIComponent does, except for its slashes', () => {
  fc.assert(
    fc.property(fc.string({ unit: 'grapheme' }), (text) => {
      expect(encodePath(text)).toBe(text.split('/').map(encodeURIComponent).join('/'));
      expect(decodePath(encodePath(text))).toBe(text);
    }),
  );
});

test('bytes that are not part of a character become lone surrogates, as in Python', () => {
  expect(decodePath('a%FFb%C3%28%ED%A0%80%E2%82')).toBe('a\udcffb\udcc3(\udced\udca0\udc80\udce2\udc82');
  expect(decodePath('%F0%9F%98%80/%FF')).toBe('😀/\udcff');
});

test.each(['%', '%zz', 'a%4', '%FF%'])('%s is refused', (encoded) => {
  expect(() => decodePath(encoded)).toThrow(URIError);
});

/** The bytes of a percent-encoded text. */
const unescapeBytes = (encoded: string): number[] => {
  const bytes: number[] = [];
  for (let at = 0; at < encoded.length; at++) {
    if (encoded[at] === '%') {
      bytes.push(Number.parseInt(encoded.slice(at + 1, at + 3), 16));
      at += 2;
    } else bytes.push(encoded.charCodeAt(at));
  }
  return bytes;
};
