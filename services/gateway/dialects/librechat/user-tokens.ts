import type { KeyObject } from 'node:crypto';
import { errors, jwtVerify } from 'jose';
import { z } from 'zod';

const maxTokenLength = 16_384;
/** LibreChat signs a token for each request; a token valid for longer is not LibreChat's. */
const maxAgeSeconds = 300;
const skewSeconds = 30;
const claimsSchema = z.object({
  sub: z.string().regex(/^[\x21-\x7e]{1,128}$/),
  // Without the slash that separates it from the user: else two users could have the same name.
  tenant_id: z
    .string()
    .regex(/^[\x21-\x2e\x30-\x7e]{1,100}$/)
    .default('legacy'),
});

/**
 * Returns the user whom a token of LibreChat names, with the tenant of LibreChat; undefined for a token that is invalid or has expired.
 */
export const readUser = async (token: string, publicKey: KeyObject): Promise<string | undefined> => {
  if (token.length > maxTokenLength || token.split('.').length !== 3) return undefined;
  try {
    const { payload } = await jwtVerify(token, publicKey, {
      algorithms: publicKey.asymmetricKeyType === 'rsa' ? ['RS256'] : ['EdDSA'],
      issuer: 'librechat',
      audience: 'codeapi',
      requiredClaims: ['sub', 'iat', 'exp'],
      maxTokenAge: maxAgeSeconds,
      clockTolerance: skewSeconds,
    });
    const { sub, tenant_id } = claimsSchema.parse(payload);
    return `${tenant_id}/${sub}`;
  } catch (error) {
    if (error instanceof errors.JOSEError || error instanceof z.ZodError) return undefined;
    throw error;
  }
};
