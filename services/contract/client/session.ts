import { type SocketMessage, type SocketRequest, socketMessageSchema } from '../boxes/socket.ts';
import { CodeBoxError } from '../problems/errors.ts';
import type { ExecutionEvent } from '../runs/events.ts';
import { type Channel, createChannel } from './channel.ts';
import { toError } from './problem.ts';
import type { EventStream } from './runs.ts';
import { answerSeconds } from './socket.ts';
import type { OpenSocket } from './terminals.ts';
import { type CallOptions, inTime, parse } from './transport.ts';

type Ask<O extends SocketRequest['op']> = Omit<Extract<SocketRequest, { op: O }>, 'id' | 'op'>;

/**
 * One WebSocket for many executions of a box. It does not reconnect when it breaks: pending calls reject with
 * `unavailable`, and a new session attaches after the last event. Closing it stops nothing that runs.
 */
export interface Session {
  execute: (ask: Ask<'execute'>) => Promise<EventStream<ExecutionEvent>>;
  /** Streams the events of any execution of the box, from any point. */
  attach: (execution: string, after?: number) => Promise<EventStream<ExecutionEvent>>;
  input: (execution: string, text: string) => Promise<void>;
  interrupt: (execution: string) => Promise<void>;
  close: () => void;
}

interface Operation {
  accept: (execution: string) => void;
  refuse: (error: unknown) => void;
  events: Channel<ExecutionEvent>;
}

/** Opens the WebSocket of executions. */
export const createSessions =
  (openSocket: OpenSocket) =>
  async (box: string, options: CallOptions = {}): Promise<Session> => {
    const socket = await openSocket(box, 'ws', {}, options);
    const operations = new Map<string, Operation>();
    let count = 0;
    let over: unknown;

    const hear = (message: SocketMessage, size: number) => {
      if (message.type === 'pong' || message.id === null) return;
      const operation = operations.get(message.id);
      if (message.type === 'accepted') operation?.accept(message.execution);
      if (message.type === 'event') operation?.events.push(message.event, size);
      if (message.type === 'problem') {
        const error = toError(message.problem);
        operation?.refuse(error);
        operation?.events.end(error);
      }
      const isLast = message.type === 'problem' || (message.type === 'event' && message.event.type === 'done');
      if (!isLast) return;
      operation?.events.end();
      operations.delete(message.id);
    };

    const listen = async (): Promise<never> => {
      for await (const text of socket) hear(parse(socketMessageSchema, String(text)), text.length);
      throw new CodeBoxError('unavailable', 'The connection is closed.');
    };
    listen().catch((error: unknown) => {
      over = error;
      for (const { refuse, events } of operations.values()) {
        refuse(error);
        events.end(error);
      }
      operations.clear();
    });

    const perform = async (
      ask: Record<string, unknown> & { op: SocketRequest['op'] },
      hasEvents: boolean,
    ): Promise<EventStream<ExecutionEvent>> => {
      if (over !== undefined) throw over;
      const id = String(++count);
      const events = createChannel<ExecutionEvent>();
      const accepted = new Promise<string>((accept, refuse) => operations.set(id, { accept, refuse, events }));
      socket.send(JSON.stringify({ id, ...ask }));
      const execution = await inTime(accepted, answerSeconds);
      if (!hasEvents) operations.delete(id);
      return { id: execution, [Symbol.asyncIterator]: () => events[Symbol.asyncIterator]() };
    };

    return {
      execute: (ask) => perform({ op: 'execute', ...ask }, true),
      attach: (execution, after = 0) => perform({ op: 'attach', execution, after }, true),
      input: async (execution, text) => void (await perform({ op: 'input', execution, text }, false)),
      interrupt: async (execution) => void (await perform({ op: 'interrupt', execution }, false)),
      close: socket.close,
    };
  };
