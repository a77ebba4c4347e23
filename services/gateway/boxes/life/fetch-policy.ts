import { isIP } from 'node:net';
import { CodeBoxError } from '#contract';

/**
 * Throws `invalid_request` for a URL that a box without a network cannot reach, so that the caller need not wait for a timeout. Its
 * own servers stay reachable. For a box with a network, the network itself decides.
 */
export const checkReachable = (url: string, network: string, pointer: string): void => {
  if (network !== 'none' || isLoopback(new URL(url).hostname)) return;
  throw new CodeBoxError('invalid_request', 'The box has no network to fetch this URL with.', {
    errors: [
      { pointer, detail: 'cannot be reached: the network of this box is none; create it with network internet' },
    ],
  });
};

const isLoopback = (host: string): boolean => {
  const address = host.replace(/^\[(.*)\]$/, '$1');
  if (isIP(address) === 4) return address.startsWith('127.');
  return address === '::1' || address === 'localhost';
};
