import type { ChangedFiles, CreateCell, Execution, ExecutionEvent } from '#contract';
import type { ChatBoxes } from '../../box/chat-boxes.ts';
import type { Chats } from '../chats.ts';
import type { Forget } from '../files/forget.ts';
import type { Owner } from '../owner.ts';

/** Code that people run in the boxes of their chats. It shares the variables with the model's code. */
export const createCells = (chats: Pick<Chats, 'find'>, boxes: ChatBoxes, forget: Forget) => {
  const boxOf = async (owner: Owner, id: string) => (await boxes.open(owner, await chats.find(owner, id))).id;

  /** The box whose cells have run; no cell has run in the next one. */
  const boxOfCells = async (owner: Owner, id: string) => boxes.had(await chats.find(owner, id), 'cell');

  async function* through(chat: string, events: AsyncIterable<ExecutionEvent>) {
    for await (const event of events) {
      if (event.type === 'done') await forgetDeleted(chat, event.files);
      yield event;
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
      const stream = await owner.client.executions.stream(await boxOf(owner, id), cell, { signal });
      return { id: stream.id, events: through(id, stream) };
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
