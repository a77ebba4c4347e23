import type { Logger } from 'pino';
import { createSession, type Session, type SessionParts, type SessionPlace, type Sink } from './session.ts';

/** How long the cells of a client that has left are remembered, and of how many such clients. */
const keptMs = 3_600_000;
const maxLeft = 1000;

/** The clients of kernels at this gateway, by the sessions that their connections name. */
export const createSessions = (parts: SessionParts) => {
  const sessions = new Map<string, Session>();
  /** Clients that have left before all of their messages were sent, the first ones first. */
  const left = new Map<string, NodeJS.Timeout>();

  const forget = (key: string) => {
    clearTimeout(left.get(key));
    left.delete(key);
    if (!sessions.get(key)?.isConnected()) sessions.delete(key);
  };

  const leave = (key: string) => {
    const session = sessions.get(key);
    if (!session || session.isConnected()) return;
    if (session.isIdle()) return forget(key);
    clearTimeout(left.get(key));
    left.set(key, setTimeout(() => forget(key), keptMs).unref());
    const [oldest] = left.keys();
    if (left.size > maxLeft && oldest !== undefined) forget(oldest);
  };

  return {
    /** Connects a client to its session. */
    connect(place: SessionPlace, sink: Sink, log: Logger): Session {
      const key = [place.ref.tenant, place.ref.box, place.kernel, place.session].join('/');
      const known = sessions.get(key);
      const session = known ?? createSession(place, parts);
      sessions.set(key, session);
      clearTimeout(left.get(key));
      left.delete(key);
      session.connect(sink, known === undefined, log);
      sink.peer.closed.addEventListener('abort', () => leave(key), { once: true });
      return session;
    },
  };
};
