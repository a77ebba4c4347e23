import type { AgentClient } from '../api/agent-client.ts';
import { faultText } from './fault.ts';
import { addOutput, noOutputs, type Outputs } from './outputs.ts';
import { createStore } from './store.ts';

/** A piece of code that the reader runs. */
export interface Cell {
  id: string;
  language: string;
  code: string;
  state: 'idle' | 'starting' | 'running' | 'done';
  execution: string | null;
  outputs: Outputs;
  status: string | null;
  cause: string | null;
  durationMs: number | null;
  /** The input that `input()` waits for. */
  prompt: { text: string; isPassword: boolean } | null;
  fault: string | null;
}

const emptyCell = (language: string, code = ''): Cell => ({
  id: crypto.randomUUID(),
  language,
  code,
  state: 'idle',
  execution: null,
  outputs: noOutputs,
  status: null,
  cause: null,
  durationMs: null,
  prompt: null,
  fault: null,
});

/** Storage name of a notebook's code in this tab. The variables are in the box. */
const nameOf = (chat: string) => `codebox-cells-${chat}`;

const readCells = (chat: string | null): Cell[] => {
  const text = chat === null ? null : sessionStorage.getItem(nameOf(chat));
  const kept: unknown = text === null ? [] : JSON.parse(text);
  if (!Array.isArray(kept)) return [];
  return kept.flatMap((cell: unknown) => {
    const isCell = typeof cell === 'object' && cell !== null && 'language' in cell && 'code' in cell;
    return isCell && typeof cell.language === 'string' && typeof cell.code === 'string'
      ? [emptyCell(cell.language, cell.code)]
      : [];
  });
};

const keepCells = (chat: string, cells: readonly Cell[]) => {
  try {
    sessionStorage.setItem(nameOf(chat), JSON.stringify(cells.map(({ language, code }) => ({ language, code }))));
  } catch {
    // The tab's storage is full: then the code is lost with the page.
  }
};

/** The cells of one chat, run in its box without a model. */
export const createNotebook = (
  client: AgentClient,
  chat: string | null,
  ensureChat: () => Promise<string>,
  onDeleted: (chat: string) => Promise<void>,
) => {
  const found = readCells(chat);
  const store = createStore<readonly Cell[]>(found.length > 0 ? found : [emptyCell('python')]);
  const change = (id: string, part: Partial<Cell> | ((cell: Cell) => Cell)) =>
    store.set((was) =>
      was.map((cell) => {
        if (cell.id !== id) return cell;
        return typeof part === 'function' ? part(cell) : { ...cell, ...part };
      }),
    );
  const find = (id: string) => store.get().find((cell) => cell.id === id);

  return {
    store,
    change,

    /** Adds a cell after this one, or at the end; returns its id. */
    add(language: string, after?: string): string {
      const cell = emptyCell(language);
      store.set((was) => {
        const index = was.findIndex(({ id }) => id === after);
        return index < 0 ? [...was, cell] : [...was.slice(0, index + 1), cell, ...was.slice(index + 1)];
      });
      return cell.id;
    },

    remove: (id: string) => store.set((was) => was.filter((cell) => cell.id !== id)),

    /** Runs a cell and shows its output as it arrives. */
    async run(id: string): Promise<void> {
      const cell = find(id);
      if (cell === undefined || cell.code.trim() === '' || cell.state === 'starting' || cell.state === 'running')
        return;
      const { language, code } = cell;
      change(id, { ...emptyCell(language, code), id, state: 'starting' });
      try {
        const chatId = await ensureChat();
        keepCells(chatId, store.get());
        const { id: execution, events } = await client.cells.run(chatId, { code, language });
        change(id, { execution, state: 'running' });
        for await (const event of events) {
          if (event.type === 'done') {
            change(id, { status: event.status, cause: event.cause?.detail ?? null, durationMs: event.durationMs });
            if (event.files && event.files.deleted.length > 0) await onDeleted(chatId);
          } else if (event.type === 'input_request')
            change(id, { prompt: { text: event.prompt, isPassword: event.password } });
          else change(id, (was) => ({ ...was, outputs: addOutput(was.outputs, event) }));
        }
      } catch (error) {
        change(id, { fault: faultText(error) });
      } finally {
        change(id, { state: 'done', prompt: null });
      }
    },

    async interrupt(id: string): Promise<void> {
      const execution = find(id)?.execution;
      if (!execution) return;
      await client.cells
        .interrupt(await ensureChat(), execution)
        .catch((error: unknown) => change(id, { fault: faultText(error) }));
    },

    /** Replies to `input()`, and shows the text as a terminal would. */
    async answer(id: string, text: string): Promise<void> {
      const cell = find(id);
      if (!cell?.execution || cell.prompt === null) return;
      const typed = `${cell.prompt.text}${cell.prompt.isPassword ? '' : text}\n`;
      change(id, (was) => ({
        ...was,
        prompt: null,
        outputs: addOutput(was.outputs, { seq: 1, type: 'stdout', text: typed }),
      }));
      await client.cells
        .input(await ensureChat(), cell.execution, text)
        .catch((error: unknown) => change(id, { fault: faultText(error) }));
    },
  };
};

export type Notebook = ReturnType<typeof createNotebook>;
