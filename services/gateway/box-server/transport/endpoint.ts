import { createHmac, createPrivateKey, createPublicKey, type KeyObject } from 'node:crypto';

/** The address of the box server of an instance, and the token by which gateway and box server recognise each other. */
export interface Endpoint {
  /** The id of the instance. */
  instance: string;
  /** `unix:/absolute/path`, or `tls:address:port` with an IPv6 address in brackets, which may later belong to another instance. */
  address: string;
  /** The token in every request, a secret of this instance and the gateways of its deployment. */
  token: string;
}

/** The request header that carries the token. */
export const tokenHeader = 'x-codebox-token';

/**
 * Derives the token of an instance from its id and the secret of the deployment, so every gateway computes the same token and none is
 * stored. The token of one instance reveals nothing about that of another.
 */
export const createTokens = (secret: string) => (instance: string) =>
  createHmac('sha256', secret).update(`box server of ${instance}`).digest('base64url');

/** An Ed25519 key in PKCS #8, up to its 32 bytes. */
const ed25519 = Buffer.from('302e020100300506032b657004220420', 'hex');

/** Returns the private key of a box server that has the token: both sides derive the same one. */
export const privateKeyOf = (token: string): KeyObject => {
  const seed = createHmac('sha256', token).update('TLS key of the box server').digest();
  return createPrivateKey({ key: Buffer.concat([ed25519, seed]), format: 'der', type: 'pkcs8' });
};

/** Returns the public key of a box server that has the token, in DER. */
export const publicKeyOf = (token: string): Buffer =>
  createPublicKey(privateKeyOf(token)).export({ format: 'der', type: 'spki' });
