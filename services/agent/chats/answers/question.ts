import type { Approval, Client } from '#contract';
import { previewTable } from '../../box/preview.ts';
import type { ModelMessage } from '../../models/model.ts';

/** A question to a chat. */
export interface Question {
  content: string;
  /** Paths of files that were uploaded to the chat before. */
  files?: readonly string[] | undefined;
  /** Overrides the model of the chat, or the default model. */
  model?: string | undefined;
  /** The model key for this answer only. */
  modelKey?: string | undefined;
  approval?: Approval | undefined;
  /** Additional instructions for this answer. */
  notes?: readonly string[] | undefined;
  /** Earlier messages that replace the chat's own history. */
  earlier?: readonly ModelMessage[] | undefined;
}

const maxPreviews = 10;
const titleCharacters = 60;

/** The title of a chat after its first question. */
export const titleOf = (content: string, files: readonly string[]): string => {
  const words = content.replaceAll(/\s+/g, ' ').trim() || (files[0] ?? 'Chat');
  if (words.length <= titleCharacters) return words;
  const cut = words.slice(0, titleCharacters);
  return `${cut.includes(' ') ? cut.slice(0, cut.lastIndexOf(' ')) : cut}…`.toWellFormed();
};

/** The question as the model receives it: it names the attached files, and the columns of tables. */
export const toQuestion = (content: string, files: readonly { path: string; preview: string | null }[]): string => {
  if (files.length === 0) return content;
  const lines = files.map(({ path, preview }) => `- /mnt/data/${path}${preview ? ` (${preview})` : ''}`);
  return `${content.trim() === '' ? 'I have uploaded files.' : content}\n\n[Uploaded files:\n${lines.join('\n')}]`;
};

/** The files of a question with their previews. */
export const withPreviews = (client: Client, box: string, files: readonly string[]) =>
  Promise.all(
    files.map(async (path, index) => ({
      path,
      preview: index < maxPreviews ? await previewTable(client, box, path) : null,
    })),
  );

/** Joins answers to one conversation: a question without an answer is followed by a note that says so. */
export const toConversation = (answers: readonly (readonly ModelMessage[])[]): ModelMessage[] =>
  answers.flatMap((messages) => {
    const isOpen = messages.at(-1)?.role !== 'assistant';
    return [...messages, ...(isOpen && messages.length > 0 ? [unanswered] : [])];
  });

const unanswered: ModelMessage = { role: 'assistant', content: '[This answer was not finished.]', calls: [] };
