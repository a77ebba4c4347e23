/** A cell as the tab keeps it. Its variables are in the box, and its output is there as long as the box keeps it. */
export interface KeptCell {
  language: string;
  code: string;
  execution: string | null;
}

/** Storage name of the cells of a chat, or of the new chat. */
const nameOf = (chat: string | null) => `codebox-cells-${chat ?? 'new'}`;

const isText = (value: unknown): value is string => typeof value === 'string';

const toKept = (cell: unknown): KeptCell[] => {
  const isCell = typeof cell === 'object' && cell !== null && 'language' in cell && 'code' in cell;
  if (!isCell || !isText(cell.language) || !isText(cell.code)) return [];
  const execution = 'execution' in cell && isText(cell.execution) ? cell.execution : null;
  return [{ language: cell.language, code: cell.code, execution }];
};

export const keptCells = (chat: string | null): KeptCell[] => {
  const text = sessionStorage.getItem(nameOf(chat));
  const kept: unknown = text === null ? [] : JSON.parse(text);
  return Array.isArray(kept) ? kept.flatMap(toKept) : [];
};

export const keepCells = (chat: string | null, cells: readonly KeptCell[]): void => {
  const kept = cells.map(({ language, code, execution }) => ({ language, code, execution }));
  try {
    sessionStorage.setItem(nameOf(chat), JSON.stringify(kept));
  } catch {
    // The tab's storage is full: then the cells are lost with the page.
  }
};

export const forgetCells = (chat: string | null): void => sessionStorage.removeItem(nameOf(chat));
