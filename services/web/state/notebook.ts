import { type ExecutionEvent, hasCode } from '#contract';
import type { AgentClient } from '../api/agent-client.ts';
import type { Connection } from './connection.ts';
import { faultText } from './fault.ts';
import { forgetCells, type KeptCell, keepCells, keptCells, type Reply } from './kept-cells.ts';
import { newId } from './new-id.ts';
import { addOutput, hasDisplay, noOutputs, type Outputs } from './outputs.ts';
import { createStore } from './store.ts';

/** The input that `input()` waits for: `seq` is the number of its event. */
interface Prompt {
  seq: number;
  text: string;
  isPassword: boolean;
}

/** A piece of code that the reader runs. */
export interface Cell {
  id: string;
  language: string;
  code: string;
  /** `waiting`: for the cells of its language that run before it. `reading`: its output, which is from before the page was loaded. */
  state: 'idle' | 'waiting' | 'starting' | 'running' | 'reading' | 'done';
  execution: string | null;
  outputs: Outputs;
  status: string | null;
  cause: string | null;
  durationMs: number | null;
  prompt: Prompt | null;
  replies: readonly Reply[];
  fault: string | null;
}

const emptyCell = (language: string, code = ''): Cell => ({
  id: newId(),
  language,
  code,
  state: 'idle',
  execution: null,
  outputs: noOutputs,
  status: null,
  cause: null,
  durationMs: null,
  prompt: null,
  replies: [],
  fault: null,
});

const fromKept = ({ language, code, execution, hasEnded, replies }: KeptCell): Cell => {
  const cell = emptyCell(language, code);
  return execution === null ? cell : { ...cell, execution, replies, state: hasEnded ? 'reading' : 'running' };
};

const toKept = ({ language, code, execution, state, replies }: Cell): KeptCell => ({
  language,
  code,
  execution,
  hasEnded: state === 'done' || state === 'reading',
  replies,
});

/** Events may arrive in thousands a second; what the reader does is shown at once. */
const eventPace = { paceMs: 40 };

export const isBusy = ({ state }: Cell): boolean => state !== 'idle' && state !== 'done';

const notRun = 'This was not run, because a cell before it did not succeed.';
const outputGone = 'Output is missing: it is no longer stored.';
const boxGone = 'The computer that ran this is gone.';

/** Shows the line that the reader has typed as a terminal would. */
const withLine = (cell: Cell, { text, isPassword }: Prompt, line: string): Cell => ({
  ...cell,
  outputs: addOutput(cell.outputs, { seq: 1, type: 'stdout', text: `${text}${isPassword ? '' : line}\n` }),
});

/** A cell after an event of its run; `seen` is the number of the event before it. */
const afterEvent = (cell: Cell, event: ExecutionEvent, seen: number): Cell => {
  if (event.type === 'done') {
    const isMissing = event.seq > seen + 1 || (seen === 0 && event.status === 'ok');
    const causes = [event.cause?.detail, isMissing ? outputGone : undefined].filter((text) => text !== undefined);
    const cause = causes.length > 0 ? causes.join(' ') : null;
    return { ...cell, status: event.status, cause, durationMs: event.durationMs, prompt: null, fault: null };
  }
  if (event.type !== 'input_request') return { ...cell, outputs: addOutput(cell.outputs, event) };
  const prompt = { seq: event.seq, text: event.prompt, isPassword: event.password };
  const reply = cell.replies.find(({ seq }) => seq === event.seq);
  if (reply !== undefined || cell.state === 'reading') return withLine(cell, prompt, reply?.text ?? '');
  return { ...cell, prompt };
};

/** A cell after an event of the run of another one, which may update what this one displays. */
const afterEventElsewhere = (cell: Cell, event: ExecutionEvent): Cell => {
  if (event.type !== 'display_update' || !hasDisplay(cell.outputs, event.displayId)) return cell;
  return { ...cell, outputs: addOutput(cell.outputs, event) };
};

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
  let chatId = chat;
  const found = keptCells(chatId).map(fromKept);
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
  const apply = (id: string, event: ExecutionEvent, seen: number) =>
    store.set(
      (was) => was.map((cell) => (cell.id === id ? afterEvent(cell, event, seen) : afterEventElsewhere(cell, event))),
      eventPace,
    );
  const reset = (id: string, part: Partial<Cell>) =>
    change(id, ({ language, code }) => ({ ...emptyCell(language, code), id, ...part }));
  const keep = () => {
    // Whoever has left the page is not to find it here.
    if (!signal.aborted) keepCells(chatId, store.get().map(toKept));
  };

  const inTurn = (language: string, task: () => Promise<void>): Promise<void> => {
    const turn = (lastRuns.get(language) ?? Promise.resolve()).then(task);
    lastRuns.set(language, turn);
    return turn;
  };

  /** Shows a run to its end; when the connection is lost, it goes on once the agent is reachable. */
  const showAll = async (id: string, execution: string, events?: AsyncIterable<ExecutionEvent>): Promise<void> => {
    const to = await ensureChat();
    for (let seen = 0; ; ) {
      try {
        for await (const event of events ?? client.cells.follow(to, execution, signal, seen)) {
          const isLive = find(id)?.state === 'running';
          apply(id, event, seen);
          seen = event.seq;
          if (event.type === 'done' && isLive && event.files && event.files.deleted.length > 0) await onDeleted(to);
        }
        return;
      } catch (error) {
        if (!connection.isLost.get()) throw error;
        await connection.back(signal);
        events = undefined;
      }
    }
  };

  /** When a run has not succeeded, the cells that wait behind it are not run. */
  const endTurn = ({ id, language }: Cell) => {
    const isOk = find(id)?.status === 'ok';
    for (const next of store.get())
      if (!isOk && next.language === language && next.state === 'waiting') reset(next.id, { cause: notRun });
    keep();
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
    }
    change(id, { state: 'done', prompt: null });
    endTurn(cell);
  };

  /** Shows a run from before the page was loaded, as far as it is still stored. */
  const readAgain = async ({ id, execution }: Cell) => {
    if (execution === null) return;
    try {
      await showAll(id, execution);
    } catch (error) {
      const isGone = hasCode(error, 'not_found') || hasCode(error, 'gone');
      if (!isGone) change(id, { fault: faultText(error) });
      else if (find(id)?.outputs === noOutputs) reset(id, {});
      else change(id, { cause: boxGone });
    }
    change(id, (cell) => (isBusy(cell) ? { ...cell, state: 'done', prompt: null } : cell));
  };

  const readEnded = async (cells: readonly Cell[]) => {
    for (const cell of cells) await readAgain(cell);
  };

  const readRunning = async (cell: Cell) => {
    await readAgain(cell);
    endTurn(cell);
  };

  return {
    store,

    /** Call this when the notebook is shown: reads the runs from before the page was loaded. */
    open(): void {
      const cells = unread.splice(0);
      void readEnded(cells.filter(({ state }) => state === 'reading'));
      for (const cell of cells) if (cell.state === 'running') void inTurn(cell.language, () => readRunning(cell));
    },

    /** The chat has been created. */
    belongTo(created: string): void {
      forgetCells(chatId);
      chatId = created;
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
     * Runs a cell, after those of its language that run or wait, and shows its output as it arrives. When one does not
     * succeed, those that wait behind it are not run.
     */
    async run(id: string): Promise<void> {
      const cell = find(id);
      if (cell === undefined || cell.code.trim() === '' || isBusy(cell)) return;
      reset(id, { state: 'waiting' });
      keep();
      await inTurn(cell.language, () => runNow(id));
    },

    /** Interrupts a cell that runs; one that waits is not run. */
    async interrupt(id: string): Promise<void> {
      const cell = find(id);
      if (cell?.state === 'waiting') reset(id, {});
      if (cell?.state !== 'running' || cell.execution === null) return;
      try {
        await client.cells.interrupt(await ensureChat(), cell.execution);
      } catch (error) {
        // It has just ended.
        if (!hasCode(error, 'conflict')) change(id, { fault: faultText(error) });
      }
    },

    /** Replies to `input()`. */
    async answer(id: string, text: string): Promise<void> {
      const cell = find(id);
      if (!cell?.execution || cell.prompt === null) return;
      const { prompt, execution } = cell;
      const reply = { seq: prompt.seq, text: prompt.isPassword ? '' : text };
      change(id, (was) => ({ ...withLine(was, prompt, text), prompt: null, replies: [...was.replies, reply] }));
      keep();
      try {
        await client.cells.input(await ensureChat(), execution, text);
      } catch (error) {
        // The code no longer waits, for example because another tab has replied.
        if (hasCode(error, 'conflict')) return;
        const others = (was: Cell) => was.replies.filter((other) => other !== reply);
        change(id, (was) => ({ ...was, prompt, replies: others(was), fault: faultText(error) }));
        keep();
      }
    },
  };
};

export type Notebook = ReturnType<typeof createNotebook>;
