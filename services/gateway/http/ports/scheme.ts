import type { IncomingMessage } from 'node:http';

/**
 * Whether the caller came by TLS, as far as a proxy in front tells: the last one, where several have added to it. A caller who
 * lies gets a cookie that is not sent, and pages that link to where nothing is.
 */
export const isSecure = ({ socket, headers }: IncomingMessage): boolean => {
  const said = headers['x-forwarded-proto'];
  const last = (Array.isArray(said) ? said.join() : (said ?? '')).split(',').at(-1) ?? '';
  return 'encrypted' in socket || last.trim().toLowerCase() === 'https';
};
