import { kept } from '../api/kept.ts';

/** A line that the reader has given to a run: for its event `input_request` with this number. Passwords are kept as empty texts. */
export interface Reply {
  seq: number;
  text: string;
}

/** A cell as the tab keeps it. Its variables are in the box, and its output is there as long as the box keeps it. */
export interface KeptCell {
  language: string;
  code: string;
  /** Its last run. */
  execution: string | null;
  hasEnded: boolean;
  replies: readonly Reply[];
}

/** Where the cells of a chat are, or those of the new chat. */
const keptAt = (chat: string | null) => kept(`codebox-cells-${chat ?? 'new'}`);

const isText = (value: unknown): value is string => typeof value === 'string';

const isObject = (value: unknown): value is Record<string, unknown> => typeof value === 'object' && value !== null;

const toReply = (reply: unknown): Reply[] =>
  isObject(reply) && typeof reply.seq === 'number' && isText(reply.text) ? [{ seq: reply.seq, text: reply.text }] : [];

const toKept = (cell: unknown): KeptCell[] => {
  if (!isObject(cell) || !isText(cell.language) || !isText(cell.code)) return [];
  return [
    {
      language: cell.language,
      code: cell.code,
      execution: isText(cell.execution) ? cell.execution : null,
      hasEnded: cell.hasEnded === true,
      replies: Array.isArray(cell.replies) ? cell.replies.flatMap(toReply) : [],
    },
  ];
};

export const keptCells = (chat: string | null): KeptCell[] => {
  try {
    const cells: unknown = JSON.parse(keptAt(chat).get() ?? '[]');
    return Array.isArray(cells) ? cells.flatMap(toKept) : [];
  } catch {
    return [];
  }
};

export const forgetCells = (chat: string | null): void => keptAt(chat).set(null);

export const keepCells = (chat: string | null, cells: readonly KeptCell[]): void => {
  const isEmpty = cells.every(({ code, execution }) => code === '' && execution === null);
  try {
    keptAt(chat).set(isEmpty ? null : JSON.stringify(cells));
  } catch {
    // The tab's storage is full: then the cells are lost with the page.
  }
};
