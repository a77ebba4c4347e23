import {
  type CreateCell,
  type ExecutionEvent,
  executionEventSchema,
  parse,
  pathOf,
  readLines,
  type Transport,
} from '#contract';

/** Code that a person runs, without a model. */
export const createCells = (transport: Transport) => ({
  /** Runs a cell. Resolves with the events up to `done`, and the id by which it is interrupted. */
  async run(chat: string, cell: CreateCell): Promise<{ id: string; events: AsyncIterable<ExecutionEvent> }> {
    const response = await transport.open({
      method: 'POST',
      path: pathOf('chats', chat, 'cells'),
      json: cell,
      headers: { accept: 'application/x-ndjson' },
      deadlineSeconds: 300,
    });
    return { id: response.headers.get('content-location')?.split('/').at(-1) ?? '', events: eventsOf(response) };
  },

  interrupt: (chat: string, execution: string): Promise<void> =>
    transport.done({ method: 'POST', path: pathOf('chats', chat, 'cells', execution, 'interrupt') }),

  /** Replies to `input()`. */
  input: (chat: string, execution: string, text: string): Promise<void> =>
    transport.done({ method: 'POST', path: pathOf('chats', chat, 'cells', execution, 'input'), json: { text } }),
});

async function* eventsOf(response: Response): AsyncGenerator<ExecutionEvent, void, undefined> {
  if (response.body === null) return;
  for await (const line of readLines(response.body)) {
    if (line === '') continue;
    const event = parse(executionEventSchema, line);
    yield event;
    if (event.type === 'done') return;
  }
}
