import type { Approval, Client } from '#contract';
import { previewTable } from '../box/preview.ts';
import type { ModelMessage } from '../models/model.ts';

/** What is asked of a chat. */
export interface Question {
  content: string;
  /** Paths of files that were put into the chat before. */
  files?: readonly string[] | undefined;
  /** Instead of the chat's, or of the default one. */
  model?: string | undefined;
  /** Used for this answer only. */
  modelKey?: string | undefined;
  approval?: Approval | undefined;
  /** Further instructions for this answer. */
  notes?: readonly string[] | undefined;
  /** What was said before, instead of what the chat itself knows of that. */
  earlier?: readonly ModelMessage[] | undefined;
}

const maxPreviews = 10;
const titleCharacters = 60;

/** What a chat is called after its first question. */
export const titleOf = (content: string, files: readonly string[]): string => {
  const words = content.replaceAll(/\s+/g, ' ').trim() || (files[0] ?? 'Chat');
  if (words.length <= titleCharacters) return words;
  const cut = words.slice(0, titleCharacters);
  return `${cut.includes(' ') ? cut.slice(0, cut.lastIndexOf(' ')) : cut}…`.toWellFormed();
};

/** A question as the model gets it: the files that came with it are named, of tables the columns too. */
export const toQuestion = (content: string, files: readonly { path: string; preview: string | null }[]): string => {
  if (files.length === 0) return content;
  const lines = files.map(({ path, preview }) => `- /mnt/data/${path}${preview ? ` (${preview})` : ''}`);
  return `${content.trim() === '' ? 'I have uploaded files.' : content}\n\n[Uploaded files:\n${lines.join('\n')}]`;
};

/** The files of a question with what can be told of them. */
export const withPreviews = (client: Client, box: string, files: readonly string[]) =>
  Promise.all(
    files.map(async (path, index) => ({
      path,
      preview: index < maxPreviews ? await previewTable(client, box, path) : null,
    })),
  );

/** One answer after the other as one conversation: a question that nothing came of is followed by a word on that. */
export const toConversation = (answers: readonly (readonly ModelMessage[])[]): ModelMessage[] =>
  answers.flatMap((messages) => {
    const isOpen = messages.at(-1)?.role !== 'assistant';
    return [...messages, ...(isOpen && messages.length > 0 ? [unanswered] : [])];
  });

const unanswered: ModelMessage = { role: 'assistant', content: '[This answer was not finished.]', calls: [] };
