import type { IncomingMessage } from 'node:http';

/**
 * Whether the request came over TLS, according to the last proxy in front. A caller who forges the header gets only a cookie that its
 * browser will not send, and links that lead nowhere.
 */
export const isSecure = ({ socket, headers }: IncomingMessage): boolean => {
  const forwarded = headers['x-forwarded-proto'];
  const last = (Array.isArray(forwarded) ? forwarded.join() : (forwarded ?? '')).split(',').at(-1) ?? '';
  return 'encrypted' in socket || last.trim().toLowerCase() === 'https';
};
