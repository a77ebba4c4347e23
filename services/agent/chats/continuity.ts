import type { ChatRow } from '../store/chats.ts';

type Lost = NonNullable<ChatRow['lost']>;

const texts = {
  variables: {
    told: 'The computer of this chat was put to rest meanwhile: its files are here, its variables are gone.',
    note: 'The box was restarted since the last message: all variables and imports are gone, the files in /mnt/data are there. Load again what you need.',
  },
  files: {
    told: 'The computer of this chat is a new one: the files and variables of before are gone.',
    note: 'The box is a new one since the last message: all variables and all files of before are gone. Ask for what you need again.',
  },
};

/** What its reader and its model are told of a box that is not as it was. */
export const continuityOf = (lost: Lost) => {
  const { told, note } = texts[lost];
  return { notice: { type: 'notice', kind: 'continuity', text: told } as const, note };
};
