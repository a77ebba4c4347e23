import { createBoxStore } from './boxes.ts';
import { connectDatabase } from './database.ts';
import { createExecutionStore } from './executions.ts';
import { createIdempotencyStore } from './idempotency.ts';
import { createKeyStore } from './keys.ts';
import { createPortSessionStore } from './port-sessions.ts';
import { createTicketStore } from './tickets.ts';

/** All SQL of the gateway, on one pool. Throws errors whose cause is `unavailable` while the database is away. */
export const openStore = async (url: string, onError: (error: Error) => void) => {
  const { db, connections, close } = await connectDatabase(url, onError);
  return {
    boxes: createBoxStore(db),
    executions: createExecutionStore(db),
    idempotency: createIdempotencyStore(db),
    keys: createKeyStore(db),
    portSessions: createPortSessionStore(db),
    tickets: createTicketStore(db),
    connections,
    close,
  };
};

export type Store = Awaited<ReturnType<typeof openStore>>;
