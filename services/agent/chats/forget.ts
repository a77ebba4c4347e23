import type { Background } from '../../waiting/background.ts';
import type { Gone } from '../store/gone-files.ts';
import type { MessageStore } from '../store/messages.ts';

/** Has the messages of a chat tell that these files are gone. Never throws: what was asked for is done all the same. */
export type Forget = (chat: string, gone: Gone) => Promise<unknown>;

export const createForget =
  (store: Pick<MessageStore, 'markGone'>, background: Background): Forget =>
  (chat, gone) =>
    background.attempt('mark files that are gone', () => store.markGone(chat, gone));
