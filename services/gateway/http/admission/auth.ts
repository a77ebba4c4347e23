import { createHash, randomBytes } from 'node:crypto';
import { crc32 } from 'node:zlib';

/** A key as it is issued, with the id and the hash that are stored. */
export interface NewKey {
  key: string;
  id: string;
  hash: string;
}

const alphabet = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';
/** A key that an operator has made, such as by Helm, has no checksum. */
const keyPattern = /^cbx_([0-9A-Za-z]{12})_([0-9A-Za-z]{43})([0-9A-Za-z]{6})?$/;

const randomText = (length: number): string => {
  let text = '';
  while (text.length < length) {
    // 248 is the largest multiple of 62 in a byte; higher values would bias the choice.
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

/** Returns the hash of a key that is stored in its place. */
export const hashOf = (key: string): string => createHash('sha256').update(key).digest('hex');

/** Creates an API key of 256 random bits, with a checksum by which secret scanners recognise it. Only `id` and `hash` are stored. */
export const makeKey = (): NewKey => {
  const id = randomText(12);
  const secret = randomText(43);
  const key = `cbx_${id}_${secret}${checksum(`${id}_${secret}`)}`;
  return { key, id, hash: hashOf(key) };
};

/** Returns the id of a well-formed key, or undefined. */
export const keyId = (key: string): string | undefined => {
  const [, id, secret, sum] = keyPattern.exec(key) ?? [];
  return id && secret && (sum === undefined || sum === checksum(`${id}_${secret}`)) ? id : undefined;
};
