import { boxPathSchema } from '#contract';
import { faulty } from '../../../http/fault.ts';

/** A file that came inside of a message. */
export interface InlineFile {
  name: string;
  bytes: Uint8Array;
}

/** What a conversation in OpenAI's words asks for. */
export interface Asked {
  /** Of the system and the developer. */
  notes: string[];
  /** Before the question, the oldest first; a chat that goes on has its own. */
  earlier: { role: 'user' | 'assistant'; content: string }[];
  question: string;
  /** Of the question. */
  files: InlineFile[];
  /** Of the messages before it. */
  earlierFiles: InlineFile[];
}

const dataUrl = /^data:([\w.+-]+\/[\w.+-]+)?(?:;[\w=.-]+)*?(;base64)?,/;
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
 * The file of a data URL, or of plain base64. Without a name it gets `fallback` with an ending for its type. Throws
 * `invalid_request` at `pointer` for what is neither, and for a name that cannot be one.
 */
export const toInlineFile = (
  data: string,
  name: string | null | undefined,
  { fallback, pointer }: { fallback: string; pointer: string },
): InlineFile => {
  const head = dataUrl.exec(data);
  if (head === null && /^[a-z]+:/.test(data)) {
    throw faulty([{ pointer, detail: 'must be a data URL: nothing is fetched from elsewhere' }]);
  }
  const text = data.slice(head?.[0].length ?? 0);
  const isPlain = head !== null && head[2] === undefined;
  if (!isPlain && !base64.test(text)) throw faulty([{ pointer, detail: 'must be base64' }]);
  const bytes = isPlain ? percentDecoded(text, pointer) : Buffer.from(text, 'base64');
  const named = name ?? `${fallback}.${endings[head?.[1] ?? ''] ?? 'bin'}`;
  const path = boxPathSchema.safeParse(named);
  if (!path.success)
    throw faulty([{ pointer, detail: `has a filename that is none: ${path.error.issues[0]?.message}` }]);
  return { name: path.data, bytes };
};

const percentDecoded = (text: string, pointer: string): Uint8Array => {
  try {
    return Buffer.from(decodeURIComponent(text));
  } catch (cause) {
    throw faulty([{ pointer, detail: 'is not valid percent-encoded UTF-8' }], cause);
  }
};

/** Files of one message; of those with the same name the later one stays. */
export const lastOfEachName = (files: readonly InlineFile[]): InlineFile[] => [
  ...new Map(files.map((file) => [file.name, file])).values(),
];
