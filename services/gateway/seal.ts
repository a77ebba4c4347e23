import { createHmac } from 'node:crypto';

/**
 * Creates the function that computes a message authentication code of a text with the secret of the deployment, so that every gateway
 * recognises what any of them has issued.
 */
export const createSeal = (secret: string) => (text: string) =>
  createHmac('sha256', secret).update(`seal of ${text}`).digest('base64url');

export type Seal = ReturnType<typeof createSeal>;
