import { boxPathSchema } from '#contract';
import { faulty } from '../../../http/faults/fault.ts';
import type { UploadRow } from '../../store/uploads.ts';

/** A file inside a message. */
export interface InlineFile {
  name: string;
  bytes: Uint8Array;
}

/** A file of a turn: inside the message, or stored before. */
export type TurnFile = InlineFile | { name: string; upload: UploadRow };

/** The input of a turn, read from a conversation in OpenAI's form. */
export interface TurnInput {
  /** Texts of the system and the developer. */
  notes: string[];
  /** Messages before the question, oldest first; ignored when the chat has its own. */
  earlier: { role: 'user' | 'assistant'; content: string }[];
  question: string;
  /** Files of the question. */
  files: TurnFile[];
  /** Files of the messages before it. */
  earlierFiles: TurnFile[];
}

const dataUrl = /^data:([\w.+-]+\/[\w.+-]+)?(?:;[\w=.-]+)*?(;base64)?,/;
/** The longest head of a data URL that is looked for, in characters. */
const mostHead = 1024;
const base64 = /^[A-Za-z0-9+/_-]*={0,2}$/;
const endings: Record<string, string> = {
  'application/json': 'json',
  'application/pdf': 'pdf',
  'image/gif': 'gif',
  'image/jpeg': 'jpg',
  'image/png': 'png',
  'image/webp': 'webp',
  'text/csv': 'csv',
  'text/plain': 'txt',
};

/**
 * The file of a data URL, or of plain base64. Without a name it gets `fallback` with an extension for its type. Throws
 * `invalid_request` at `pointer` for other text, and for an invalid name.
 */
export const toInlineFile = (
  data: string,
  name: string | null | undefined,
  { fallback, pointer }: { fallback: string; pointer: string },
): InlineFile => {
  const head = dataUrl.exec(data.slice(0, mostHead));
  if (head === null && /^[a-z]+:/.test(data)) {
    throw faulty([{ pointer, detail: 'must be a data URL: nothing is fetched from elsewhere' }]);
  }
  const text = data.slice(head?.[0].length ?? 0);
  const isPlain = head !== null && head[2] === undefined;
  if (!isPlain && !base64.test(text)) throw faulty([{ pointer, detail: 'must be base64' }]);
  const bytes = isPlain ? percentDecoded(text, pointer) : Buffer.from(text, 'base64');
  const named = name ?? `${fallback}.${endings[head?.[1] ?? ''] ?? 'bin'}`;
  const path = boxPathSchema.safeParse(named);
  if (!path.success) throw faulty([{ pointer, detail: `has an invalid filename: ${path.error.issues[0]?.message}` }]);
  return { name: path.data, bytes };
};

const percentDecoded = (text: string, pointer: string): Uint8Array => {
  try {
    return Buffer.from(decodeURIComponent(text));
  } catch (cause) {
    throw faulty([{ pointer, detail: 'is not valid percent-encoded UTF-8' }], cause);
  }
};

/** A message of a request, with its parts joined. */
export interface ConversationMessage {
  role: 'system' | 'developer' | 'user' | 'assistant';
  text: string;
  files: TurnFile[];
}

/**
 * Reads a conversation: its last message, from the user, is the question. Of files with the same name, the latest is
 * kept. Throws `invalid_request` at `pointer` when there is no question.
 */
export const toTurnInput = (conversation: readonly ConversationMessage[], pointer: string): TurnInput => {
  const last = conversation.at(-1);
  if (last?.role !== 'user') throw faulty([{ pointer, detail: 'must end with a message of the user' }]);
  if (last.text.trim() === '' && last.files.length === 0) {
    throw faulty([{ pointer, detail: 'must end with a message that is not empty' }]);
  }
  const notes: string[] = [];
  const earlier: TurnInput['earlier'] = [];
  for (const { role, text } of conversation.slice(0, -1)) {
    if (role === 'user' || role === 'assistant') earlier.push({ role, content: text });
    else notes.push(text);
  }
  const own = new Set(last.files.map(({ name }) => name));
  const before = conversation.slice(0, -1).flatMap(({ files }) => files);
  return {
    notes,
    earlier,
    question: last.text,
    files: latest(last.files),
    earlierFiles: latest(before).filter(({ name }) => !own.has(name)),
  };
};

const latest = (files: readonly TurnFile[]): TurnFile[] => [
  ...new Map(files.map((file) => [file.name, file])).values(),
];
