import type { ChangedFiles, CreateCell, Execution, ExecutionEvent } from '#contract';
import type { Background } from '../../../waiting/background.ts';
import type { ChatBoxes } from '../../box/chat-boxes.ts';
import type { Chats } from '../chats.ts';
import type { Forget } from '../files/forget.ts';
import type { Owner } from '../owner.ts';

export interface CellsOptions {
  chats: Pick<Chats, 'find'>;
  boxes: ChatBoxes;
  forget: Forget;
  background: Pick<Background, 'run'>;
  /** Aborted when the agent stops. */
  stopping: AbortSignal;
}

/** Code that people run in the boxes of their chats. It shares the variables with the model's code. */
export const createCells = ({ chats, boxes, forget, background, stopping }: CellsOptions) => {
  const boxOf = async (owner: Owner, id: string) => (await boxes.open(owner, await chats.find(owner, id))).id;
  /** The box in which the chat's cells have run. A later one knows none of them. */
  const boxOfCells = async (owner: Owner, id: string) => boxes.had(await chats.find(owner, id), 'cell');

  const toEnd = async (chat: string, events: AsyncIterable<ExecutionEvent>) => {
    try {
      for await (const event of events) if (event.type === 'done') await forgetDeleted(chat, event.files);
    } catch (error) {
      if (!stopping.aborted) throw error;
    }
  };

  /** Passes the events on. When the reader leaves, the run is followed to its end, as it may delete files. */
  async function* through(chat: string, events: AsyncIterable<ExecutionEvent>, rest: (after: number) => typeof events) {
    let seen = 0;
    let isDone = false;
    try {
      for await (const event of events) {
        seen = event.seq;
        isDone = event.type === 'done';
        if (event.type === 'done') await forgetDeleted(chat, event.files);
        yield event;
      }
    } finally {
      if (!(isDone || stopping.aborted)) background.run('follow a cell', () => toEnd(chat, rest(seen)));
    }
  }

  const forgetDeleted = async (chat: string, files: ChangedFiles | null | undefined) => {
    if (files && files.deleted.length > 0) await forget(chat, { paths: files.deleted });
  };

  return {
    /** Runs the cell and waits for its end. */
    async run(owner: Owner, id: string, cell: CreateCell): Promise<Execution> {
      const box = await boxOf(owner, id);
      const execution = await owner.client.executions.run(box, cell, { idempotencyKey: false });
      await forgetDeleted(id, execution.files);
      return execution;
    },

    /** Runs the cell and streams its events as the gateway sends them. Aborting stops the stream, not the run. */
    async stream(owner: Owner, id: string, cell: CreateCell, signal: AbortSignal) {
      const { executions } = owner.client;
      const box = await boxOf(owner, id);
      const stream = await executions.stream(box, cell, { signal });
      const rest = (after: number) => executions.events(box, stream.id, { after, signal: stopping });
      return { id: stream.id, events: through(id, stream, rest) };
    },

    /**
     * Streams the events of a cell that runs or has run, after an event. Resolves with undefined when it has ended and no events follow;
     * throws `not_found` when the box of the chat is another one by now.
     */
    async follow(owner: Owner, id: string, execution: string, after: number, signal: AbortSignal) {
      return await owner.client.executions.follow(await boxOfCells(owner, id), execution, { after, signal });
    },

    async interrupt(owner: Owner, id: string, execution: string): Promise<void> {
      await owner.client.executions.interrupt(await boxOfCells(owner, id), execution);
    },

    /** Restarts the kernels of the chat's box, if it has one. */
    async restart(owner: Owner, id: string): Promise<void> {
      const { boxId } = await chats.find(owner, id);
      if (boxId === null) return;
      for await (const context of owner.client.contexts.list(boxId))
        await owner.client.contexts.restart(boxId, context.id);
    },

    async input(owner: Owner, id: string, execution: string, text: string): Promise<void> {
      await owner.client.executions.input(await boxOfCells(owner, id), execution, text);
    },
  };
};

export type Cells = ReturnType<typeof createCells>;
