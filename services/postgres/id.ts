import { createHash, randomBytes } from 'node:crypto';

const alphabet = 'abcdefghijklmnopqrstuvwxyz234567';

/**
 * A new id: the prefix and 128 random bits in lower-case base32, so that it fits a URL, a host name and a file name.
 * @example newId('box') // 'box-k3j5…'
 */
export const newId = (prefix: string): string => toId(prefix, randomBytes(16));

/** An id derived from a name: the same name has the same id, in the same form as all others. */
export const idOf = (prefix: string, name: string): string =>
  toId(prefix, createHash('sha256').update(name).digest().subarray(0, 16));

const toId = (prefix: string, bytes: Uint8Array): string => {
  let bits = 0n;
  for (const byte of bytes) bits = (bits << 8n) | BigInt(byte);
  return idOfNumber(prefix, bits);
};

/** The id that has a number of at most 128 bits; the inverse of `numberOf`. */
export const idOfNumber = (prefix: string, number: bigint): string => {
  let [bits, text] = [number, ''];
  for (let i = 0; i < 26; i++) {
    text = alphabet[Number(bits & 31n)] + text;
    bits >>= 5n;
  }
  return `${prefix}-${text}`;
};

/** The 128 bits of an id as a number. */
export const numberOf = (id: string): bigint =>
  [...id.slice(-26)].reduce((bits, digit) => (bits << 5n) | BigInt(alphabet.indexOf(digit)), 0n);
