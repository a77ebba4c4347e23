import { createHash, randomBytes } from 'node:crypto';
import { crc32 } from 'node:zlib';

/** A key as it is handed out, and what is kept of it. */
export interface NewKey {
  key: string;
  id: string;
  hash: string;
}

const alphabet = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';
const keyPattern = /^cbx_([0-9A-Za-z]{12})_([0-9A-Za-z]{43})([0-9A-Za-z]{6})$/;

const randomText = (length: number): string => {
  let text = '';
  while (text.length < length) {
    // 248 is the largest multiple of 62 in a byte: above it the choice would be uneven.
    for (const byte of randomBytes(64)) if (byte < 248 && text.length < length) text += alphabet[byte % 62];
  }
  return text;
};

const checksum = (text: string): string => {
  let rest = crc32(text);
  let digits = '';
  for (let i = 0; i < 6; i++) {
    digits = alphabet[rest % 62] + digits;
    rest = Math.floor(rest / 62);
  }
  return digits;
};

/** What is kept of a key. */
export const hashOf = (key: string): string => createHash('sha256').update(key).digest('hex');

/** A new API key: 256 random bits, with a checksum by which secret scanners know it. Only `id` and `hash` are kept. */
export const makeKey = (): NewKey => {
  const id = randomText(12);
  const secret = randomText(43);
  const key = `cbx_${id}_${secret}${checksum(`${id}_${secret}`)}`;
  return { key, id, hash: hashOf(key) };
};

/** The id of a well-formed key; undefined for anything else. */
export const keyId = (key: string): string | undefined => {
  const [, id, secret, sum] = keyPattern.exec(key) ?? [];
  return id && secret && sum === checksum(`${id}_${secret}`) ? id : undefined;
};
