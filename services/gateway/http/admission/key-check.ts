import { timingSafeEqual } from 'node:crypto';
import type { Caller, ValidKey } from '../../store/tenants/keys.ts';
import { hashOf, keyId } from './auth.ts';

/** A caller with the rights of its key. */
export type KnownCaller = Caller & Omit<ValidKey, 'hash'>;

const cacheMs = 1000;
const maxCached = 10_000;

/** Checks API keys. Results of the database are cached for one second, so a revoked key stops working within that time. */
export const createKeyCheck = (findKey: (id: string) => Promise<ValidKey | undefined>) => {
  const cache = new Map<string, ValidKey & { until: number }>();

  const find = async (id: string): Promise<ValidKey | undefined> => {
    const cached = cache.get(id);
    if (cached && cached.until > performance.now()) return cached;
    const found = await findKey(id);
    if (!found) {
      cache.delete(id);
      return undefined;
    }
    if (cache.size >= maxCached) cache.clear();
    cache.set(id, { ...found, until: performance.now() + cacheMs });
    return found;
  };

  const toCaller = (id: string, { tenantId, scopes, isSuspended, quotas }: ValidKey): KnownCaller => ({
    tenantId,
    keyId: id,
    scopes,
    isSuspended,
    quotas,
  });

  return {
    /** Whether the key was recently valid, so that checking it is not a first database lookup. */
    isRemembered: (key: string): boolean => cache.has(keyId(key) ?? ''),

    /** Resolves with the caller of a key, or undefined when it is not valid. */
    async callerOf(key: string): Promise<KnownCaller | undefined> {
      const id = keyId(key);
      const found = id === undefined ? undefined : await find(id);
      if (id === undefined || !found) return undefined;
      const isSame = timingSafeEqual(Buffer.from(hashOf(key), 'hex'), Buffer.from(found.hash, 'hex'));
      return isSame ? toCaller(id, found) : undefined;
    },

    /** Resolves with the caller while its key is valid and its tenant is not suspended, otherwise with undefined. */
    async still(caller: Caller | undefined): Promise<KnownCaller | undefined> {
      const found = caller && (await find(caller.keyId));
      return found && !found.isSuspended ? toCaller(caller.keyId, found) : undefined;
    },
  };
};

export type KeyCheck = ReturnType<typeof createKeyCheck>;
