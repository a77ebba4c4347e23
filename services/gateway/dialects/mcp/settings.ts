import { z } from 'zod';
import { ConfigurationError } from '../../../configuration-error.ts';
import { keyId } from '../../http/admission/auth.ts';

const webAddress = z.url({ protocol: /^https?$/ });

/** The variables of an issuer of access tokens, which are set together. */
export const issuerVariables = {
  CODEBOX_MCP_ISSUER: webAddress.optional(),
  CODEBOX_MCP_RESOURCE: webAddress
    .refine((address) => !/[?#]/.test(address), 'must be an address without a query or a fragment')
    .optional(),
  CODEBOX_MCP_KEY: z
    .string()
    .refine((key) => keyId(key) !== undefined, 'must be an API key: cbx_…')
    .optional(),
};

/** An authorization server whose access tokens are accepted besides API keys. */
export interface Issuer {
  /** Its issuer identifier. */
  issuer: string;
  /** The address of the server for its clients, which is the audience of tokens. */
  resource: string;
  /** The API key with whose rights the users of the issuer call. */
  key: string;
}

/** Returns the issuer; undefined without one. Throws a ConfigurationError when only a part of it is set. */
export const toIssuer = (
  values: {
    [name in keyof typeof issuerVariables]?: string | undefined;
  },
): Issuer | undefined => {
  const { CODEBOX_MCP_ISSUER: issuer, CODEBOX_MCP_RESOURCE: resource, CODEBOX_MCP_KEY: key } = values;
  if (issuer !== undefined && resource !== undefined && key !== undefined) return { issuer, resource, key };
  if (issuer === undefined && resource === undefined && key === undefined) return undefined;
  throw new ConfigurationError(`${Object.keys(issuerVariables).join(', ')} are set together.`);
};
