import { timingSafeEqual } from 'node:crypto';
import type { Caller } from '../../http/admission/admission.ts';
import type { Seal } from '../../seal.ts';

/**
 * `envd` grants everything in a sandbox, `traffic` the ports of its servers and the code interpreter, and `upload` one file for the build of
 * a template, which stands in place of the sandbox.
 */
export type TokenKind = 'envd' | 'traffic' | 'upload';

const form = /^([A-Za-z0-9_-]{1,64})\.([A-Za-z0-9]{1,64})\.([\w-]{43})$/;

/**
 * Tokens for one sandbox, which its clients send in place of the key. A token names the tenant and the key that it was made for, and is
 * valid as long as that key. It is computed, not stored, so the same key always gets the same token for a sandbox.
 */
export const createTokens = (seal: Seal) => {
  const issue = (kind: TokenKind, { tenantId, keyId }: Caller, sandbox: string): string =>
    `${tenantId}.${keyId}.${seal(`e2b ${kind} ${sandbox} ${tenantId} ${keyId}`)}`;

  return {
    issue,

    /** Returns the caller that a token was made for; undefined for a token of another kind or sandbox, or one that was not made here. */
    read(kind: TokenKind, token: string | undefined, sandbox: string): Caller | undefined {
      const [, tenantId, keyId] = form.exec(token ?? '') ?? [];
      if (token === undefined || tenantId === undefined || keyId === undefined) return undefined;
      const caller = { tenantId, keyId };
      const [given, expected] = [Buffer.from(token), Buffer.from(issue(kind, caller, sandbox))];
      return given.length === expected.length && timingSafeEqual(given, expected) ? caller : undefined;
    },
  };
};

export type Tokens = ReturnType<typeof createTokens>;
