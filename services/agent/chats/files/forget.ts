import type { Background } from '../../../waiting/background.ts';
import type { DeletedFiles } from '../../store/deleted-files.ts';
import type { MessageStore } from '../../store/messages.ts';

/**
 * Marks files as deleted in the messages of a chat. Never throws: the request that deleted them has succeeded anyway.
 */
export type Forget = (chat: string, deleted: DeletedFiles) => Promise<unknown>;

export const createForget =
  (store: Pick<MessageStore, 'markDeleted'>, background: Background): Forget =>
  (chat, deleted) =>
    background.attempt('mark deleted files', () => store.markDeleted(chat, deleted));
