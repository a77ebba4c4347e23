import { setTimeout as sleep } from 'node:timers/promises';
import { type Endpoint, tokenHeader } from './endpoint.ts';
import { connectToBox } from './socket.ts';

const questionOf = ({ token }: Endpoint) =>
  `GET /codebox/health HTTP/1.1\r\nHost: localhost\r\n${tokenHeader}: ${token}\r\nConnection: close\r\n\r\n`;
/** A timer of ours that is later than this tells that this process, or all of the host, has stood still meanwhile. */
const lateMs = 500;

/**
 * Asks a box server for a sign of life, for `forMs`. Answers for how long it was silent: 0 when it has answered, or when this process
 * could not have heard it. It gets a connection of its own, because those of its calls may all wait for it.
 */
export const silenceOf = async (endpoint: Endpoint, forMs: number): Promise<number> => {
  const begunAt = performance.now();
  const over = new AbortController();
  const timeout = sleep(forMs, false, { signal: over.signal }).catch(() => false);
  const answers = hears(endpoint, over.signal).catch(() => timeout);
  const isHeard = await Promise.race([answers, timeout]);
  over.abort();
  const ms = performance.now() - begunAt;
  return isHeard || ms > forMs + lateMs ? 0 : ms;
};

const hears = async (endpoint: Endpoint, over: AbortSignal): Promise<boolean> => {
  const socket = await connectToBox(endpoint);
  try {
    if (over.aborted) return false;
    over.addEventListener('abort', () => socket.destroy(), { once: true });
    return await new Promise((resolve, reject) => {
      socket.once('data', () => resolve(true));
      socket.once('error', reject);
      socket.once('close', () => reject(new Error('closed without an answer')));
      socket.write(questionOf(endpoint));
    });
  } finally {
    socket.destroy();
  }
};
