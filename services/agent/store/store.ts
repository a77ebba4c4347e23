import { createBlobRows } from './blobs.ts';
import { createChatStore } from './chats.ts';
import { connectDatabase } from './database.ts';
import { createMessageStore } from './messages.ts';
import { createSecretStore } from './secrets.ts';
import { createUploadRows } from './uploads.ts';

/**
 * All SQL of the agent, on one connection pool. Throws errors whose cause is `unavailable` while the database is
 * unreachable.
 */
export const openStore = async (url: string, onError: (error: Error) => void) => {
  const { db, connections, close } = await connectDatabase(url, onError);
  return {
    blobs: createBlobRows(db),
    chats: createChatStore(db),
    messages: createMessageStore(db),
    secrets: createSecretStore(db),
    uploads: createUploadRows(db),
    connections,
    close,
  };
};
