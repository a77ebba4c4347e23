import { setTimeout as sleep } from 'node:timers/promises';
import { type Endpoint, tokenHeader } from './endpoint.ts';
import { connectToBox } from './socket.ts';

const probeOf = ({ token }: Endpoint) =>
  `GET /codebox/health HTTP/1.1\r\nHost: localhost\r\n${tokenHeader}: ${token}\r\nConnection: close\r\n\r\n`;
/** A timer that fires later than this means that this process or the whole host has stalled meanwhile. */
const lateMs = 500;

/**
 * Probes a box server for up to `forMs`. Resolves with the time for which it was silent: 0 when it has responded, or when this process
 * stalled and could not have noticed. The probe has its own connection, because all others may be waiting for the box server.
 */
export const silenceOf = async (endpoint: Endpoint, forMs: number): Promise<number> => {
  const startedAt = performance.now();
  const ended = new AbortController();
  const timeout = sleep(forMs, false, { signal: ended.signal }).catch(() => false);
  const response = probe(endpoint, ended.signal).catch(() => timeout);
  const hasResponded = await Promise.race([response, timeout]);
  ended.abort();
  const ms = performance.now() - startedAt;
  return hasResponded || ms > forMs + lateMs ? 0 : ms;
};

const probe = async (endpoint: Endpoint, ended: AbortSignal): Promise<boolean> => {
  const socket = await connectToBox(endpoint);
  try {
    if (ended.aborted) return false;
    ended.addEventListener('abort', () => socket.destroy(), { once: true });
    return await new Promise((resolve, reject) => {
      socket.once('data', () => resolve(true));
      socket.once('error', reject);
      socket.once('close', () => reject(new Error('closed without a response')));
      socket.write(probeOf(endpoint));
    });
  } finally {
    socket.destroy();
  }
};
