import { createHmac } from 'node:crypto';

/** Computes a message authentication code with the secret of the deployment. */
type Seal = (text: string) => string;

const keyOf = (seal: Seal, webhook: string): Buffer => Buffer.from(seal(`webhook ${webhook}`), 'base64url');

/** The secret of a webhook: derived, so that none is stored. */
export const secretOf = (seal: Seal, webhook: string): string => `whsec_${keyOf(seal, webhook).toString('base64')}`;

/** The headers of a delivery: https://www.standardwebhooks.com, version 1. */
export const signedHeaders = (
  seal: Seal,
  { webhook, id, body, at }: { webhook: string; id: string; body: string; at: Date },
): Record<string, string> => {
  const timestamp = String(Math.floor(at.getTime() / 1000));
  const signature = createHmac('sha256', keyOf(seal, webhook)).update(`${id}.${timestamp}.${body}`).digest('base64');
  return { 'webhook-id': id, 'webhook-timestamp': timestamp, 'webhook-signature': `v1,${signature}` };
};
