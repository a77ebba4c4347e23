import { createHash, randomBytes, timingSafeEqual } from 'node:crypto';
import type { Seal } from '../../seal.ts';

const nameLength = 22;
const sealLength = 21;

/**
 * Tokens of 128 random bits with a seal, by which every gateway recognizes those that one of them has made. A guess is refused without a
 * look at the database, so guesses need no limit per address, which could also refuse a valid token.
 */
export const createSealedTokens = (seal: Seal, purpose: string, prefix = '') => {
  const sealed = (name: string): string => prefix + name + seal(`${purpose} ${name}`).slice(0, sealLength);
  const hashOf = (token: string): string => createHash('sha256').update(token).digest('hex');

  return {
    /** Returns a new token, and its hash, which is stored in its place. */
    make(): { token: string; hash: string } {
      const token = sealed(randomBytes(16).toString('base64url'));
      return { token, hash: hashOf(token) };
    },

    /** Returns the hash of a token; undefined for one that no gateway has made. */
    hashOf(token: string): string | undefined {
      const name = token.slice(prefix.length, prefix.length + nameLength);
      const [given, expected] = [Buffer.from(token), Buffer.from(sealed(name))];
      return given.length === expected.length && timingSafeEqual(given, expected) ? hashOf(token) : undefined;
    },
  };
};
