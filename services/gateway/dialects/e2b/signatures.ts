import { createHash, timingSafeEqual } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import { CodeBoxError } from '#contract';
import type { Caller } from '../../http/admission/admission.ts';
import { toBoxId, toSandboxId } from './address.ts';
import type { Tokens } from './tokens.ts';

/** The parameters of a signed URL, which stand in place of a token: they permit one use of one path. */
export interface Signed {
  path: string;
  operation: 'read' | 'write';
  username: string;
  signature: string;
  /** When it expires, in seconds since 1970; undefined for a signature that ends with its token only. */
  expiration: string | undefined;
}

/** A living box, and a caller for whom its tokens may have been made. */
export interface Maker extends Caller {
  box: string;
  metadata: Record<string, string>;
}

export interface SignaturesOptions {
  tokens: Tokens;
  /** Returns the callers whose tokens are tried for a box, or for any box; those that used their box last come first. */
  findMakers: (box: string | undefined) => Promise<Maker[]>;
}

/** How many makers of signatures are remembered, by their signatures. */
const maxKnown = 1000;
const form = /^v1_[\w+/-]{43}$/;

/** Returns the signature that a request for a file has in place of a token; undefined for any other request. */
export const readSigned = ({ method, url = '' }: IncomingMessage): Signed | undefined => {
  const [path, search] = url.split('?', 2);
  if (path !== '/files' || search?.includes('signature=') !== true) return undefined;
  const query = new URLSearchParams(search);
  return {
    path: query.get('path') ?? '',
    operation: method === 'POST' ? 'write' : 'read',
    username: query.get('username') ?? '',
    signature: query.get('signature') ?? '',
    expiration: query.get('signature_expiration') ?? undefined,
  };
};

/**
 * Finds whose token a URL was signed with. The URL names neither the token's key nor, when its client uses one address for all sandboxes,
 * the sandbox, so candidates are tried.
 */
export const createSignatures = ({ tokens, findMakers }: SignaturesOptions) => {
  const known = new Map<string, Maker>();

  const isOf = (maker: Maker, { path, operation, username, signature, expiration }: Signed): boolean => {
    const token = tokens.issue('envd', maker, toSandboxId(maker.box));
    const text = [path, operation, username, token, ...(expiration === undefined ? [] : [expiration])].join(':');
    const expected = Buffer.from(`v1_${createHash('sha256').update(text).digest('base64').replace(/=+$/, '')}`);
    const given = Buffer.from(signature);
    return given.length === expected.length && timingSafeEqual(given, expected);
  };

  return {
    /** Returns the maker of a signature for `sandbox`, if that is known. Throws `unauthorized` for one that has expired. */
    async find(signed: Signed, sandbox: string): Promise<Maker | undefined> {
      const box = sandbox === '' ? undefined : toBoxId(sandbox);
      if (!form.test(signed.signature) || (sandbox !== '' && box === undefined)) return undefined;
      const earlier = known.get(signed.signature);
      const candidates = earlier ? [earlier] : await findMakers(box);
      const maker = candidates.find((one) => (box === undefined || one.box === box) && isOf(one, signed));
      if (!maker) return undefined;
      if (signed.expiration !== undefined && !(Number(signed.expiration) * 1000 > Date.now()))
        throw new CodeBoxError('unauthorized', 'signature is already expired');
      if (known.size >= maxKnown) known.clear();
      known.set(signed.signature, maker);
      return maker;
    },
  };
};

export type Signatures = ReturnType<typeof createSignatures>;
