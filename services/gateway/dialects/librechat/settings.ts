import { createPublicKey, type KeyObject } from 'node:crypto';
import { z } from 'zod';
import { ConfigurationError } from '../../../configuration-error.ts';
import { keyId } from '../../http/admission/auth.ts';

/** The variables of tokens that LibreChat signs, which are set together. */
export const librechatVariables = {
  CODEBOX_LIBRECHAT_PUBLIC_KEY: z
    .string()
    .transform((text, context) => {
      const key = readKey(text.replaceAll('\\n', '\n'));
      if (key) return key;
      context.addIssue({ code: 'custom', message: 'must be a public key of Ed25519 or RSA in PEM' });
      return z.NEVER;
    })
    .optional(),
  CODEBOX_LIBRECHAT_KEY: z
    .string()
    .refine((key) => keyId(key) !== undefined, 'must be an API key: cbx_…')
    .optional(),
};

const readKey = (pem: string): KeyObject | undefined => {
  // A private key would be read as its public one, but does not belong here.
  if (!pem.includes('PUBLIC KEY')) return undefined;
  try {
    const key = createPublicKey(pem);
    return ['ed25519', 'rsa'].includes(key.asymmetricKeyType ?? '') ? key : undefined;
  } catch {
    return undefined;
  }
};

/** A LibreChat whose tokens are accepted besides API keys. */
export interface Signer {
  publicKey: KeyObject;
  /** The API key with whose rights its users call. */
  key: string;
}

/** Returns the signer; undefined without one. Throws a ConfigurationError when only a part of it is set. */
export const toSigner = (values: {
  CODEBOX_LIBRECHAT_PUBLIC_KEY?: KeyObject | undefined;
  CODEBOX_LIBRECHAT_KEY?: string | undefined;
}): Signer | undefined => {
  const { CODEBOX_LIBRECHAT_PUBLIC_KEY: publicKey, CODEBOX_LIBRECHAT_KEY: key } = values;
  if (publicKey !== undefined && key !== undefined) return { publicKey, key };
  if (publicKey === undefined && key === undefined) return undefined;
  throw new ConfigurationError(`${Object.keys(librechatVariables).join(', ')} are set together.`);
};
