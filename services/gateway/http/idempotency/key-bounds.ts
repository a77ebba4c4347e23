import { CodeBoxError } from '#contract';
import type { Background } from '../../../waiting/background.ts';
import type { IdempotencyStore } from '../../store/idempotency.ts';

export interface KeyBoundsOptions {
  idempotency: Pick<IdempotencyStore, 'count' | 'dropOldBodies'>;
  background: Pick<Background, 'run'>;
  /** The bounds for one tenant: keys, and bytes of the responses to them. */
  maxKeys: number;
  maxResponseBytes: number;
}

interface Used {
  /** How many keys may be claimed before they are counted again. */
  left: number;
  /** When to count again after the bound was reached. */
  countAt: number;
  counting: Promise<void> | undefined;
  /** Bytes of responses stored since the last clean-up. */
  bytes: number;
}

/** How many keys and bytes a gateway accepts between two counts in the database. */
const maxUncounted = 1000;
const maxUncountedBytes = 1024 * 1024;
const recountMs = 5000;
const maxTenants = 10_000;

/**
 * Bounds the Idempotency-Keys that are stored for one tenant. Over the bound of bytes the oldest response bodies are deleted, but never
 * their keys: a repeated request is still not done again. Over the bound of keys new keys are refused; old keys are not deleted early.
 * Each gateway counts only now and then, so a tenant may exceed the bounds by 1,000 keys and 1 MiB for each gateway.
 */
export const createKeyBounds = ({ idempotency, background, maxKeys, maxResponseBytes }: KeyBoundsOptions) => {
  const tenants = new Map<string, Used>();

  const usedBy = (tenantId: string): Used => {
    const known = tenants.get(tenantId);
    if (known) return known;
    if (tenants.size >= maxTenants) tenants.clear();
    const used = { left: 0, countAt: Number.NEGATIVE_INFINITY, counting: undefined, bytes: 0 };
    tenants.set(tenantId, used);
    return used;
  };

  const count = async (tenantId: string, used: Used): Promise<void> => {
    const keys = await idempotency.count(tenantId, maxKeys);
    used.left = Math.min(maxUncounted, maxKeys - keys);
    used.countAt = used.left > 0 ? Number.NEGATIVE_INFINITY : performance.now() + recountMs;
  };

  return {
    /** Resolves with whether the tenant may have another key, and counts that key. */
    async hasRoom(tenantId: string): Promise<boolean> {
      const used = usedBy(tenantId);
      while (used.left <= 0) {
        if (performance.now() < used.countAt) return false;
        used.counting ??= count(tenantId, used).finally(() => {
          used.counting = undefined;
        });
        await used.counting;
      }
      used.left -= 1;
      return true;
    },

    refusal: () =>
      new CodeBoxError(
        'too_many_requests',
        `The tenant has sent ${maxKeys} Idempotency-Keys, and each is kept for 24 hours. Send this request without a key, or later.`,
        { retryAfterSeconds: 60 },
      ),

    /** Counts the body of a stored response. */
    noteResponse(tenantId: string, bytes: number): void {
      const used = usedBy(tenantId);
      used.bytes += bytes;
      if (used.bytes < Math.min(maxUncountedBytes, maxResponseBytes / 8)) return;
      used.bytes = 0;
      background.run('delete old keyed responses', () => idempotency.dropOldBodies(tenantId, maxResponseBytes));
    },
  };
};

export type KeyBounds = ReturnType<typeof createKeyBounds>;
