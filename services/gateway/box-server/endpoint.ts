import { createHmac } from 'node:crypto';

/** Where the box server of an instance listens, and what the two know each other by. */
export interface Endpoint {
  /** The instance's id. */
  instance: string;
  /** `unix:/absolute/path`, or `tcp:address:port` with an IPv6 address in brackets. The latter may be another instance's later. */
  address: string;
  /** What every request carries: known to this instance and to the gateways of its deployment, and to nobody else. */
  token: string;
}

/** The request header that carries the token. */
export const tokenHeader = 'x-codebox-token';

/**
 * Returns the token of an instance, by its id. It follows from the deployment's secret, so every gateway finds the same one and
 * none is stored; the token of one instance tells nothing about that of another.
 */
export const createTokens = (secret: string) => (instance: string) =>
  createHmac('sha256', secret).update(`box server of ${instance}`).digest('base64url');

/** What a box server that has the token answers to a challenge, as hexadecimal digits. */
export const proofOf = (token: string, challenge: string): string =>
  createHmac('sha256', token).update(challenge).digest('hex');
