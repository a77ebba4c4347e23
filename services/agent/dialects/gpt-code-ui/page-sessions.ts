import type { Owner } from '../../chats/owner.ts';
import type { Result } from './results.ts';

/** The part of a session that the collection needs. */
interface Kept {
  /** Returns the results that wait to be polled, and empties them. */
  drain(): Result[];
  /** Stops the running answer or code. */
  settle(): Promise<void>;
}

export interface PageSessionsOptions<PageSession extends Kept> {
  /** Opens a session; `onSize` must be called with the number of characters by which its results grow or shrink. */
  open: (onSize: (by: number) => void) => PageSession;
  now?: () => number;
  /** Limit for the results of all sessions, in characters. */
  maxSize?: number;
}

const maxPageSessions = 10_000;
const idleMs = 3_600_000;

/**
 * The sessions that were used within the last hour; the answer of a dropped session is stopped. Beyond `maxSize`, the
 * results of the least recently used sessions are dropped.
 */
export const createPageSessions = <PageSession extends Kept>({
  open,
  now = () => performance.now(),
  maxSize = 256 * 1024 * 1024,
}: PageSessionsOptions<PageSession>) => {
  /** In order of use: the most recently used session is last. */
  const pageSessions = new Map<string, { pageSession: PageSession; usedAt: number }>();
  let size = 0;

  const onSize = (by: number): void => {
    size += by;
    if (by <= 0) return;
    for (const { pageSession } of pageSessions.values()) {
      if (size <= maxSize) return;
      pageSession.drain();
    }
  };

  const forget = (id: string, pageSession: PageSession): void => {
    pageSessions.delete(id);
    pageSession.drain();
    // It may produce results until it has stopped.
    void pageSession.settle().then(() => pageSession.drain());
  };

  return {
    of({ tenant, user }: Pick<Owner, 'tenant' | 'user'>): PageSession {
      const id = JSON.stringify([tenant, user]);
      const pageSession = pageSessions.get(id)?.pageSession ?? open(onSize);
      pageSessions.delete(id);
      pageSessions.set(id, { pageSession, usedAt: now() });
      for (const [other, { pageSession: oldest, usedAt }] of pageSessions) {
        if (pageSessions.size <= maxPageSessions && now() - usedAt <= idleMs) break;
        forget(other, oldest);
      }
      return pageSession;
    },
  };
};
