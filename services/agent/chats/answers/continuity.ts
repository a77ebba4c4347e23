import type { ChatRow } from '../../store/chats.ts';

type Lost = NonNullable<ChatRow['lost']>;

const texts = {
  variables: {
    notice: 'The computer of this chat was put to rest meanwhile: its files are still here, its variables are gone.',
    note: 'The box was restarted since the last message: all variables and imports are gone, the files in /mnt/data are there. Load again what you need.',
  },
  files: {
    notice: 'This chat has a new computer: its earlier files and variables are gone.',
    note: 'The box is a new one since the last message: all earlier variables and files are gone. Ask for what you need again.',
  },
};

/** The notice for the reader and the note for the model when a box has lost its variables or files. */
export const continuityOf = (lost: Lost) => {
  const { notice, note } = texts[lost];
  return { notice: { type: 'notice', kind: 'continuity', text: notice } as const, note };
};
