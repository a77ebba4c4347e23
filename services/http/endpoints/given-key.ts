import type { Context } from 'hono';
import type { HttpEnv } from '../env.ts';

/** The key in `Authorization: Bearer`. */
export const bearerKey = <E extends HttpEnv>(c: Context<E>): string | undefined =>
  /^Bearer +(\S+)$/i.exec(c.req.header('authorization') ?? '')?.[1];

/** The key in `Authorization: Bearer` or `X-API-Key`. */
export const givenKey = <E extends HttpEnv>(c: Context<E>): string | undefined =>
  bearerKey(c) ?? c.req.header('x-api-key');

/** Headers in which other services expect a key. */
const otherHeaders = [
  'api-key',
  'apikey',
  'x-api-token',
  'x-auth-token',
  'x-access-token',
  'x-codebox-key',
  'token',
  'key',
];
const queryNames = ['api_key', 'apikey', 'api-key', 'key', 'token', 'access_token'];

/**
 * Explains why a request has no valid key, as the rest of a sentence: a key was sent, or something in another form; '' when there was
 * nothing. Says the same about every key that was refused.
 */
export const keyMistake = <E extends HttpEnv>(c: Context<E>): string => {
  const authorization = c.req.header('authorization')?.trim();
  if (givenKey(c) !== undefined) return '; the key that was sent is not valid';
  if (authorization === 'Bearer') return '; there is nothing behind Bearer: the variable with the key may be empty';
  if (authorization?.startsWith('cbx_')) return '; the word Bearer is missing before the key';
  if (/^Bearer\b/i.test(authorization ?? ''))
    return '; behind Bearer and a space there is the key alone, without spaces';
  const [scheme] = /^[A-Za-z]{1,20}(?= )/.exec(authorization ?? '') ?? [];
  if (scheme !== undefined) return `; the Authorization that was sent is of the kind ${scheme}, not Bearer`;
  if (authorization !== undefined) return '; the Authorization that was sent does not begin with Bearer';
  const header = otherHeaders.find((name) => c.req.header(name) !== undefined);
  if (header !== undefined) return `; the header ${header} is not read`;
  const name = queryNames.find((one) => c.req.query(one) !== undefined);
  if (name !== undefined) return `; ?${name}= is not read, as an address is written into logs`;
  return '';
};
