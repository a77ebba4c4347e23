import { createHash, randomBytes, timingSafeEqual } from 'node:crypto';
import { crc32 } from 'node:zlib';
import type { Context, MiddlewareHandler } from 'hono';
import { CodeBoxError } from '#contract';
import type { Caller } from '../store/keys.ts';
import type { Env } from './env.ts';

/** A key as it is handed out, and what is kept of it. */
export interface NewKey {
  key: string;
  id: string;
  hash: string;
}

const alphabet = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';
const keyPattern = /^cbx_([0-9A-Za-z]{12})_([0-9A-Za-z]{43})([0-9A-Za-z]{6})$/;
const cacheMs = 1000;
const maxCached = 10_000;

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

const hashOf = (key: string): string => createHash('sha256').update(key).digest('hex');

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

/** Who made a single-use ticket for a box. */
type RedeemTicket = (ticket: string, box: string) => Promise<Caller | undefined>;

const boxPath = /^\/v1\/boxes\/([^/]+)\//;

type FindKey = (id: string) => Promise<{ hash: string; tenantId: string } | undefined>;

/** The key that a request gives in `Authorization: Bearer` or `X-API-Key`. */
export const givenKey = (c: Context<Env>): string | undefined =>
  /^Bearer +(\S+)$/i.exec(c.req.header('authorization') ?? '')?.[1] ?? c.req.header('x-api-key');

/** The caller; throws the one 401 when there is none. */
export const requireCaller = (caller: Caller | undefined): Caller => {
  if (!caller) throw new CodeBoxError('unauthorized', 'A valid API key is needed: Authorization: Bearer cbx_…');
  return caller;
};

/** Lets a request of this caller in; throws the one 401 when there is none. */
export const admit = (c: Context<Env>, caller: Caller | undefined): void => {
  const { tenantId, keyId } = requireCaller(caller);
  c.set('tenant', tenantId);
  c.set('keyId', keyId);
  c.set('log', c.get('log').child({ tenant: tenantId }));
};

/** Which keys are valid. What the database said of a key holds for one second, so a revoked key ends within that. */
export const createKeyCheck = (findKey: FindKey) => {
  const cache = new Map<string, { hash: string; tenantId: string; until: number }>();

  const find = async (id: string): ReturnType<FindKey> => {
    const cached = cache.get(id);
    if (cached && cached.until > performance.now()) return cached;
    const found = await findKey(id);
    if (!found) return undefined;
    if (cache.size >= maxCached) cache.clear();
    cache.set(id, { ...found, until: performance.now() + cacheMs });
    return found;
  };

  return {
    /** Whose key this is; undefined for one that is not valid. */
    async callerOf(key: string): Promise<Caller | undefined> {
      const id = keyId(key);
      const found = id === undefined ? undefined : await find(id);
      if (id === undefined || !found) return undefined;
      const isSame = timingSafeEqual(Buffer.from(hashOf(key), 'hex'), Buffer.from(found.hash, 'hex'));
      return isSame ? { tenantId: found.tenantId, keyId: id } : undefined;
    },

    /** The same caller while the key is valid. */
    async still(caller: Caller | undefined): Promise<Caller | undefined> {
      return caller && (await find(caller.keyId)) ? caller : undefined;
    },
  };
};

export type KeyCheck = ReturnType<typeof createKeyCheck>;

/**
 * Lets in requests with a valid key in `Authorization: Bearer` or `X-API-Key`; sets `tenant` and `keyId`. A WebSocket may have
 * `?ticket=` instead, because a browser cannot set its headers; pages elsewhere have neither, so their origin does not matter.
 * A ticket is worth as much as the key that made it. Every refusal is the same 401.
 */
export const authenticate =
  (keys: KeyCheck, redeemTicket: RedeemTicket): MiddlewareHandler<Env> =>
  async (c, next) => {
    const key = givenKey(c);
    const ticket = c.env?.upgrade && key === undefined ? c.req.query('ticket') : undefined;
    const caller =
      ticket === undefined
        ? await keys.callerOf(key ?? '')
        : await keys.still(await redeemTicket(ticket, boxPath.exec(c.req.path)?.[1] ?? ''));
    admit(c, caller);
    await next();
  };
