import { randomUUID } from 'node:crypto';
import type { Logger } from 'pino';
import { createSession, type Session, type SessionParts, type SessionPlace, type Sink } from './session.ts';

/** How long the session of a disconnected client is kept, and how many of them. */
const keptMs = 3_600_000;
const maxLeft = 1000;

type SessionName = Omit<SessionPlace, 'session'> & { session: string | undefined };

/** The clients of kernels at this gateway, by the sessions that their connections name. */
export const createSessions = (parts: SessionParts) => {
  const sessions = new Map<string, Session>();
  /** Disconnected clients, the earliest first. */
  const left = new Map<string, NodeJS.Timeout>();

  const forget = (key: string) => {
    clearTimeout(left.get(key));
    left.delete(key);
    if (!sessions.get(key)?.isConnected()) sessions.delete(key);
  };

  const leave = (key: string) => {
    const session = sessions.get(key);
    if (!session || session.isConnected()) return;
    clearTimeout(left.get(key));
    left.set(key, setTimeout(() => forget(key), keptMs).unref());
    const [oldest] = left.keys();
    if (left.size > maxLeft && oldest !== undefined) forget(oldest);
  };

  return {
    /** Connects a client to its session; one that does not name its session gets a new one. */
    connect({ session: name, ...place }: SessionName, sink: Sink, log: Logger): Session {
      if (name === undefined) {
        const session = createSession({ ...place, session: randomUUID() }, parts);
        session.connect(sink, log);
        return session;
      }
      const key = [place.ref.tenant, place.ref.box, place.kernel, name].join('/');
      const session = sessions.get(key) ?? createSession({ ...place, session: name }, parts);
      sessions.set(key, session);
      clearTimeout(left.get(key));
      left.delete(key);
      session.connect(sink, log);
      sink.peer.closed.addEventListener('abort', () => leave(key), { once: true });
      return session;
    },
  };
};
