import { CodeBoxError } from '#contract';
import type { Background } from '../../../waiting/background.ts';
import type { IdempotencyStore } from '../../store/idempotency.ts';

export interface KeyBoundsOptions {
  idempotency: Pick<IdempotencyStore, 'count' | 'forgetAnswers'>;
  background: Pick<Background, 'run'>;
  /** Of one tenant: keys, and bytes of the answers to them. */
  maxKeys: number;
  maxAnswerBytes: number;
}

interface Used {
  /** How many keys may be taken before they are counted again. */
  left: number;
  /** When to count again, after there was no room. */
  countAt: number;
  counting: Promise<void> | undefined;
  /** Bytes of answers since old ones were forgotten last. */
  bytes: number;
}

/** How many keys and bytes a gateway lets pass between two looks at how much there is. */
const maxUncounted = 1000;
const maxUncountedBytes = 1024 * 1024;
const recountMs = 5000;
const maxTenants = 10_000;

/**
 * What is kept of the Idempotency-Keys of one tenant. Over its bytes the oldest answers go, never their keys: a repeated request is
 * still not done again. Over its number new keys are refused, rather than old ones forgotten before their time. Each gateway looks
 * from time to time, so a tenant may have 1,000 keys and 1 MiB more for each of them.
 */
export const createKeyBounds = ({ idempotency, background, maxKeys, maxAnswerBytes }: KeyBoundsOptions) => {
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
    /** Whether a tenant may have a further key. */
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
        `The tenant has sent ${maxKeys} Idempotency-Keys, of which each is kept for 24 hours. Send this without one, or later.`,
        { retryAfterSeconds: 60 },
      ),

    /** Told of each answer that was written. */
    noteAnswer(tenantId: string, bytes: number): void {
      const used = usedBy(tenantId);
      used.bytes += bytes;
      if (used.bytes < Math.min(maxUncountedBytes, maxAnswerBytes / 8)) return;
      used.bytes = 0;
      background.run('forget old answers', () => idempotency.forgetAnswers(tenantId, maxAnswerBytes));
    },
  };
};

export type KeyBounds = ReturnType<typeof createKeyBounds>;
