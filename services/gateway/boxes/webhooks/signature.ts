import { createHmac } from 'node:crypto';

/** Computes a message authentication code with the secret of the deployment. */
type Seal = (text: string) => string;

/** The key of a secret, by its number: 0 is the first one. */
const keyOf = (seal: Seal, webhook: string, number: number): Buffer =>
  Buffer.from(seal(number === 0 ? `webhook ${webhook}` : `webhook ${webhook} ${number}`), 'base64url');

/** A secret of a webhook: derived, so that none is stored. */
export const secretOf = (seal: Seal, webhook: string, number: number): string =>
  `whsec_${keyOf(seal, webhook, number).toString('base64')}`;

/** The headers of a delivery: https://www.standardwebhooks.com, version 1, with a signature of each of the secrets with these numbers. */
export const signedHeaders = (
  seal: Seal,
  { webhook, secrets, id, body, at }: { webhook: string; secrets: number[]; id: string; body: string; at: Date },
): Record<string, string> => {
  const timestamp = String(Math.floor(at.getTime() / 1000));
  const signatures = secrets.map((number) => {
    const hmac = createHmac('sha256', keyOf(seal, webhook, number)).update(`${id}.${timestamp}.${body}`);
    return `v1,${hmac.digest('base64')}`;
  });
  return { 'webhook-id': id, 'webhook-timestamp': timestamp, 'webhook-signature': signatures.join(' ') };
};
