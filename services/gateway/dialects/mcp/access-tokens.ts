import { createRemoteJWKSet, errors, type JWTVerifyGetKey, jwtVerify } from 'jose';
import { z } from 'zod';
import { CodeBoxError } from '#contract';
import type { Issuer } from './settings.ts';

const discoveryMs = 5000;
const maxTokenLength = 16_384;
/** Signatures with public keys only: a shared secret could be one that the token names itself. */
const algorithms = ['RS256', 'RS384', 'RS512', 'PS256', 'PS384', 'PS512', 'ES256', 'ES384', 'ES512', 'EdDSA'];
const metadataSchema = z.object({ issuer: z.string(), jwks_uri: z.url({ protocol: /^https?$/ }) });
/** A subject becomes part of the name of a user. */
const subjectSchema = z.string().regex(/^[\x21-\x7e](?:[\x20-\x7e]{0,238}[\x21-\x7e])?$/);

/** The addresses of the metadata of an issuer: RFC 8414 puts a path behind the well-known name, OpenID Connect before it. */
const metadataAddresses = (issuer: string): string[] => {
  const { origin, pathname } = new URL(issuer);
  const path = pathname.replace(/\/$/, '');
  return [
    `${origin}/.well-known/oauth-authorization-server${path}`,
    `${origin}/.well-known/openid-configuration${path}`,
    `${origin}${path}/.well-known/openid-configuration`,
  ];
};

const discoverKeys = async (issuer: string): Promise<JWTVerifyGetKey> => {
  for (const address of new Set(metadataAddresses(issuer))) {
    const response = await fetch(address, { signal: AbortSignal.timeout(discoveryMs), redirect: 'error' });
    const metadata = metadataSchema.safeParse(response.ok ? await response.json() : undefined).data;
    if (metadata?.issuer === issuer)
      return createRemoteJWKSet(new URL(metadata.jwks_uri), { timeoutDuration: discoveryMs });
  }
  throw new Error(`there is no metadata of the issuer ${issuer}`);
};

/** Whether an error is the fault of the token; otherwise the issuer could not be asked. */
const isOfToken = (error: unknown): boolean =>
  error instanceof errors.JOSEError && !(error instanceof errors.JWKSTimeout || error instanceof errors.JWKSInvalid);

/** Verifies access tokens: JWTs that an issuer has signed for this resource. Its keys are found by its metadata, when the first token comes. */
export const createAccessTokens = ({ issuer, resource }: Issuer) => {
  let keys: Promise<JWTVerifyGetKey> | undefined;

  const findKeys = (): Promise<JWTVerifyGetKey> => {
    keys ??= discoverKeys(issuer).catch((error: unknown) => {
      keys = undefined;
      throw error;
    });
    return keys;
  };

  return {
    /**
     * Returns the subject of a token; undefined for one that is invalid, has expired, or is for another resource. Throws `unavailable` when
     * the issuer does not respond.
     */
    async subjectOf(token: string): Promise<string | undefined> {
      if (token.length > maxTokenLength || token.split('.').length !== 3) return undefined;
      try {
        const options = { issuer, audience: resource, algorithms, requiredClaims: ['sub', 'exp'] };
        const { payload } = await jwtVerify(token, await findKeys(), options);
        return subjectSchema.safeParse(payload.sub).data;
      } catch (cause) {
        if (isOfToken(cause)) return undefined;
        throw new CodeBoxError('unavailable', 'The issuer of access tokens does not respond.', {
          cause,
          retryAfterSeconds: 5,
        });
      }
    },
  };
};
