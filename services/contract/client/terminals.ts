import { z } from 'zod';
import { type TerminalQuery, terminalNewsSchema, terminalPageSchema } from '../boxes/terminals.ts';
import { CodeBoxError } from '../problems/errors.ts';
import { answerSeconds, openSocket, type SocketClass } from './socket.ts';
import { type CallOptions, inTime, parse, pathOf, type Transport } from './transport.ts';

/** How a WebSocket is opened. */
export interface SocketOptions {
  /** Replaces the global WebSocket, for example with that of `ws`. */
  WebSocket?: SocketClass;
  /**
   * Returns a ticket for a box, valid for one connection: a page asks its app's server. Default: the client creates one
   * with its key.
   */
  ticket?: (box: string) => string | Promise<string>;
}

/** An event of a terminal: output as bytes, or its end. */
export type TerminalEvent =
  | { type: 'output'; bytes: Uint8Array<ArrayBuffer> }
  | { type: 'exit'; exitCode: number | null; signal: string | null };

/** An attached terminal, which can be read once. Leaving it keeps its shell running; attach again by its id. */
export interface TerminalConnection extends AsyncIterable<TerminalEvent> {
  id: string;
  cols: number;
  rows: number;
  /** How many of the first bytes of output are a replay of earlier output. */
  replayedBytes: number;
  /** Sends keystrokes. */
  write: (keys: string | Uint8Array<ArrayBuffer>) => void;
  resize: (cols: number, rows: number) => void;
  close: () => void;
}

const [ready, exit, fault] = terminalNewsSchema.options;
const messageSchema = z.discriminatedUnion('type', [ready.extend({ terminal: z.string() }), exit, fault]);

/** Opens the WebSocket of a path below a box, with a ticket. */
export const createSockets = (
  transport: Transport,
  makeTicket: (box: string) => Promise<string>,
  own: SocketOptions,
) => {
  const { ticket = makeTicket, WebSocket: SocketClass = globalThis.WebSocket } = own;
  return async (
    box: string,
    name: string,
    query: Record<string, string | number | undefined>,
    options: CallOptions,
  ) => {
    const url = new URL(`${transport.base}${pathOf('boxes', box, name)}`);
    url.protocol = url.protocol === 'https:' ? 'wss:' : 'ws:';
    for (const [key, value] of Object.entries({ ...query, ticket: await ticket(box) }))
      if (value !== undefined) url.searchParams.set(key, String(value));
    return await openSocket(url.href, SocketClass, options);
  };
};

export type OpenSocket = ReturnType<typeof createSockets>;

/** Interactive shells in a box. */
export const createTerminals = (transport: Transport, open: OpenSocket) => ({
  /** Starts a terminal, or attaches to a running one. */
  async open(box: string, settings: Omit<TerminalQuery, 'ticket'> & CallOptions = {}): Promise<TerminalConnection> {
    const { terminal, cols, rows, cwd, ...options } = settings;
    const socket = await open(box, 'terminal', { terminal, cols, rows, cwd }, options);
    const messages = socket[Symbol.asyncIterator]();
    const hello = await greeting(messages).catch((error: unknown) => {
      socket.close();
      throw error;
    });
    return {
      id: hello.terminal,
      cols: hello.cols,
      rows: hello.rows,
      replayedBytes: hello.replayedBytes,
      write: (keys) => socket.send(typeof keys === 'string' ? new TextEncoder().encode(keys) : keys),
      resize: (cols, rows) => socket.send(JSON.stringify({ type: 'resize', cols, rows })),
      close: socket.close,
      [Symbol.asyncIterator]: () => terminalEvents(messages),
    };
  },

  /** Running terminals, oldest first. */
  list: (box: string, options?: CallOptions) =>
    transport.items(terminalPageSchema, { path: pathOf('boxes', box, 'terminals'), options }),

  /** Ends a terminal with everything that runs in it. */
  delete: (box: string, terminal: string, options?: CallOptions): Promise<void> =>
    transport.done({ method: 'DELETE', path: pathOf('boxes', box, 'terminals', terminal), options }),
});

const greeting = async (messages: AsyncIterator<string | Uint8Array>) => {
  const { value } = await inTime(messages.next(), answerSeconds);
  const hello = typeof value === 'string' ? parse(messageSchema, value) : undefined;
  if (hello?.type === 'ready') return hello;
  const detail = hello?.type === 'error' ? hello.detail : 'The terminal ended before it was ready.';
  throw new CodeBoxError('unavailable', detail);
};

async function* terminalEvents(
  messages: AsyncIterator<string | Uint8Array<ArrayBuffer>>,
): AsyncGenerator<TerminalEvent, void, undefined> {
  try {
    for (;;) {
      const { done, value } = await messages.next();
      if (done) return;
      if (typeof value !== 'string') {
        yield { type: 'output', bytes: value };
        continue;
      }
      const message = parse(messageSchema, value);
      if (message.type === 'error') throw new CodeBoxError('unavailable', message.detail);
      if (message.type === 'exit') return yield message;
    }
  } finally {
    await messages.return?.();
  }
}
