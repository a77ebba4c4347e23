import { type ExecutionEvent, hasCode } from '#contract';
import type { AgentClient } from '../api/agent-client.ts';
import type { Connection } from './connection.ts';
import { faultText } from './fault.ts';
import { forgetCells, keepCells, keptCells } from './kept-cells.ts';
import { addOutput, noOutputs, type Outputs } from './outputs.ts';
import { createStore } from './store.ts';

/** A piece of code that the reader runs. */
export interface Cell {
  id: string;
  language: string;
  code: string;
  /** `waiting`: other cells of its language run before it. */
  state: 'idle' | 'waiting' | 'starting' | 'running' | 'done';
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

export const isBusy = ({ state }: Cell): boolean => state !== 'idle' && state !== 'done';

/** What has become of the output of a run of which only the end is known. */
const outputGone = 'The output is no longer stored.';
const notRun = 'This was not run, because a cell before it did not succeed.';

export interface NotebookOptions {
  client: AgentClient;
  connection: Connection;
  /** Null for a chat that is created at its first use. */
  chat: string | null;
  ensureChat: () => Promise<string>;
  /** Called when a run has deleted files. */
  onDeleted: (chat: string) => Promise<void>;
  signal: AbortSignal;
}

/**
 * The cells of one chat, run in its box without a model. The tab keeps their code and the ids of their runs, and after
 * a reload their outputs are read again.
 */
export const createNotebook = ({ client, connection, chat, ensureChat, onDeleted, signal }: NotebookOptions) => {
  let owner = chat;
  const found = keptCells(owner).map(({ language, code, execution }): Cell => {
    const cell = emptyCell(language, code);
    return execution === null ? cell : { ...cell, execution, state: 'starting' };
  });
  const store = createStore<readonly Cell[]>(found.length > 0 ? found : [emptyCell('python')]);
  const unread = found.filter(({ execution }) => execution !== null);
  /** The last run of each language: a kernel runs one after the other, and a browser allows few connections. */
  const lastRuns = new Map<string, Promise<void>>();

  const find = (id: string) => store.get().find((cell) => cell.id === id);
  const change = (id: string, part: Partial<Cell> | ((cell: Cell) => Cell)) =>
    store.set((was) =>
      was.map((cell) => {
        if (cell.id !== id) return cell;
        return typeof part === 'function' ? part(cell) : { ...cell, ...part };
      }),
    );
  const reset = (id: string, part: Partial<Cell>) =>
    change(id, ({ language, code }) => ({ ...emptyCell(language, code), id, ...part }));
  const keep = () => keepCells(owner, store.get());

  const inTurn = (language: string, task: () => Promise<void>): Promise<void> => {
    const turn = (lastRuns.get(language) ?? Promise.resolve()).then(task);
    lastRuns.set(language, turn);
    return turn;
  };

  const show = (id: string, event: ExecutionEvent) => {
    if (event.type === 'done')
      change(id, { status: event.status, cause: event.cause?.detail ?? null, durationMs: event.durationMs });
    else if (event.type === 'input_request') change(id, { prompt: { text: event.prompt, isPassword: event.password } });
    else change(id, (was) => ({ ...was, outputs: addOutput(was.outputs, event) }));
  };

  /** Shows a run to its end; when the connection is lost, it goes on once the agent is reachable. */
  const showAll = async (id: string, execution: string, events: AsyncIterable<ExecutionEvent>, after = 0) => {
    const chatId = await ensureChat();
    let seen = after;
    try {
      for await (const event of events) {
        show(id, event);
        if (event.type === 'done' && seen === 0)
          change(id, ({ cause, ...was }) => ({ ...was, cause: cause ?? outputGone }));
        if (event.type === 'done' && event.files && event.files.deleted.length > 0) await onDeleted(chatId);
        seen = event.seq;
      }
    } catch (error) {
      if (!connection.isLost.get()) throw error;
      await connection.back(signal);
      await showAll(id, execution, client.cells.follow(chatId, execution, signal, seen), seen);
    }
  };

  const runNow = async (id: string) => {
    const cell = find(id);
    if (cell?.state !== 'waiting') return;
    const { code, language } = cell;
    change(id, { state: 'starting' });
    try {
      const { id: execution, events } = await client.cells.run(await ensureChat(), { code, language }, signal);
      change(id, { execution, state: 'running' });
      keep();
      await showAll(id, execution, events);
    } catch (error) {
      change(id, { fault: faultText(error) });
    } finally {
      change(id, { state: 'done', prompt: null });
    }
    if (find(id)?.status === 'ok') return;
    for (const { id: next, ...other } of store.get())
      if (other.language === language && other.state === 'waiting') reset(next, { cause: notRun });
  };

  /** Shows a run from before the page was loaded. */
  const readAgain = async ({ id, execution }: Cell) => {
    if (execution === null) return;
    change(id, { state: 'running' });
    try {
      await showAll(id, execution, client.cells.follow(await ensureChat(), execution, signal));
      change(id, { state: 'done', prompt: null });
    } catch (error) {
      // Its box is gone, and the run with it.
      const isGone = hasCode(error, 'not_found') || hasCode(error, 'gone');
      reset(id, isGone ? {} : { execution, state: 'done', fault: faultText(error) });
    }
  };

  return {
    store,

    /** Call this when the notebook is shown: reads the runs from before the page was loaded. */
    open(): void {
      for (const cell of unread.splice(0)) void inTurn(cell.language, () => readAgain(cell));
    },

    /** The chat has been created. */
    belongTo(created: string): void {
      forgetCells(owner);
      owner = created;
      keep();
    },

    edit(id: string, part: Partial<Pick<Cell, 'language' | 'code'>>): void {
      change(id, part);
      keep();
    },

    /** Adds a cell after this one, or at the end; returns its id. */
    add(language: string, after?: string): string {
      const cell = emptyCell(language);
      store.set((was) => {
        const index = was.findIndex(({ id }) => id === after);
        return index < 0 ? [...was, cell] : [...was.slice(0, index + 1), cell, ...was.slice(index + 1)];
      });
      keep();
      return cell.id;
    },

    remove(id: string): void {
      store.set((was) => was.filter((cell) => cell.id !== id));
      keep();
    },

    /**
     * Runs a cell, after those of its language that run or wait, and shows its output as it arrives. When one does not succeed, those
     * that wait behind it are not run.
     */
    async run(id: string): Promise<void> {
      const cell = find(id);
      if (cell === undefined || cell.code.trim() === '' || isBusy(cell)) return;
      reset(id, { state: 'waiting' });
      await inTurn(cell.language, () => runNow(id));
    },

    /** Interrupts a cell that runs; one that waits is not run. */
    async interrupt(id: string): Promise<void> {
      const cell = find(id);
      if (cell?.state === 'waiting') reset(id, {});
      if (cell?.state !== 'running' || cell.execution === null) return;
      await client.cells
        .interrupt(await ensureChat(), cell.execution)
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
