import {
  bySeq,
  type CreateCell,
  type ExecutionEvent,
  executionEventSchema,
  followEvents,
  pathOf,
  type Transport,
} from '#contract';

/** Code that a person runs, without a model. A stream of events that is cut is resumed. */
export const createCells = (transport: Transport) => {
  const eventsOf = (
    chat: string,
    execution: string,
    signal: AbortSignal,
    from: { first: Response } | { after: number },
  ): AsyncIterable<ExecutionEvent> =>
    followEvents<ExecutionEvent>({
      ...from,
      schema: executionEventSchema,
      counting: bySeq,
      open: (after) =>
        transport.open({
          path: `${pathOf('chats', chat, 'cells', execution)}/events`,
          query: { after },
          headers: { accept: 'application/x-ndjson' },
          options: { signal },
        }),
      signal,
    });

  return {
    /** Runs a cell. Resolves with its events up to `done`, and the id by which it is followed and interrupted. */
    async run(chat: string, cell: CreateCell, signal: AbortSignal) {
      const first = await transport.open({
        method: 'POST',
        path: pathOf('chats', chat, 'cells'),
        json: cell,
        headers: { accept: 'application/x-ndjson' },
        deadlineSeconds: 300,
        options: { signal },
      });
      const id = first.headers.get('content-location')?.split('/').at(-1) ?? '';
      return { id, events: eventsOf(chat, id, signal, { first }) };
    },

    /** Follows a cell after an event. Of one whose output is no longer stored, `done` alone is sent. */
    follow: (chat: string, execution: string, signal: AbortSignal, after = 0) =>
      eventsOf(chat, execution, signal, { after }),

    interrupt: (chat: string, execution: string): Promise<void> =>
      transport.done({ method: 'POST', path: pathOf('chats', chat, 'cells', execution, 'interrupt') }),

    /** Replies to `input()`. */
    input: (chat: string, execution: string, text: string): Promise<void> =>
      transport.done({ method: 'POST', path: pathOf('chats', chat, 'cells', execution, 'input'), json: { text } }),
  };
};
