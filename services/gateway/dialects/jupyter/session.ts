import { setTimeout as sleep } from 'node:timers/promises';
import type { Logger } from 'pino';
import { CodeBoxError, type ExecutionEvent, hasCode } from '#contract';
import { asCodeBoxError } from '../../../http/problems/problem.ts';
import type { Keep } from '../../../websockets/held-messages.ts';
import type { Peer } from '../../../websockets/peer.ts';
import type { BoxRef } from '../../boxes/box-ref.ts';
import type { Contexts } from '../../boxes/runs/contexts.ts';
import type { Executions } from '../../boxes/runs/executions.ts';
import type { Header, ServerMessage } from './messages.ts';
import { toMessage } from './messages.ts';
import { type CellRequest, createTranslation, type Translation } from './outputs.ts';

/** A kernel of a box, and one client of it: its messages name this session. */
export interface SessionPlace {
  ref: BoxRef;
  kernel: string;
  session: string;
}

export interface SessionParts {
  executions: Executions;
  contexts: Contexts;
  /** Aborted when the gateway begins to stop. */
  stopping: AbortSignal;
}

export interface Cell extends CellRequest {
  allowsInput: boolean;
  stopsOnError: boolean;
  /** Evaluated after the code, by the names of their values. */
  expressions: Record<string, string>;
  /** Resolves when the messages before it have been sent to the kernel. */
  after: Promise<void>;
  /** Keeps its message counted as long as it is needed. */
  keep: Keep;
}

/** A cell whose last message has not been sent yet. */
interface PendingCell {
  request: Pick<Cell, 'header' | 'stopsOnError'>;
  translation: Translation;
  execution?: string;
  /** The last event that was sent. */
  seq: number;
  /** Whether its events are sent as they come; otherwise they are read again once the client is back. */
  isLive: boolean;
  isAborted?: boolean;
  /** The messages of a cell that has not run. */
  unsent?: ServerMessage[];
}

/** Where messages go: the WebSocket of the client. */
export interface Sink {
  peer: Pick<Peer, 'closed' | 'close' | 'isOpen'>;
  send: (message: ServerMessage) => Promise<void> | undefined;
}

const timeoutSeconds = 3600;
const maxWaiting = 500;
const maxWaitingCharacters = 16 * 1024 * 1024;
const maxOrigins = 200;
/** How often another gateway is given time to start its next cell of this client, and how much. */
const othersTries = 10;
const othersPauseMs = 200;

/**
 * The cells of one client of a kernel. They run one after the other, whether the client is connected or not. A client that connects again
 * gets the messages that it has missed; those of cells that another gateway has started are read from the box, from the first one.
 */
export const createSession = ({ ref, kernel, session }: SessionPlace, parts: SessionParts) => {
  const { executions, contexts, stopping } = parts;
  const pending = new Map<string, PendingCell>();
  const origins = new Map<string, Header>();
  let sink: Sink | undefined;
  let last: Promise<unknown> = Promise.resolve();
  let caughtUp: Promise<void> = Promise.resolve();
  let [waiting, waitingCharacters] = [0, 0];
  let asking: string | undefined;

  const isConnected = () => sink?.peer.isOpen() ?? false;

  const send = async (messages: readonly ServerMessage[], to = sink): Promise<void> => {
    for (const message of messages) await to?.send(message);
  };

  const noteOrigin = (execution: string, header: Header) => {
    origins.set(execution, header);
    const oldest = origins.size > maxOrigins ? origins.keys().next().value : undefined;
    if (oldest !== undefined) origins.delete(oldest);
  };

  const note = (execution: string, event: ExecutionEvent) => {
    if (event.type === 'input_request') asking = execution;
    else if (event.type === 'done' && asking === execution) asking = undefined;
  };

  /** Sends an event to a connected client, and forgets the cell after its last one. */
  const deliver = async (cell: PendingCell, execution: string, event: ExecutionEvent): Promise<void> => {
    cell.isLive &&= isConnected();
    if (!cell.isLive) return;
    await send(cell.translation.of(execution, event));
    cell.isLive = isConnected();
    if (!cell.isLive) return;
    cell.seq = event.seq;
    if (event.type === 'done') pending.delete(cell.request.header.msg_id);
  };

  /** Replaces a kernel that has died at once, as a Jupyter server does, because clients request its info before they continue. */
  const renew = (): Promise<{ execution_state: string }> =>
    contexts.restart(ref, kernel).then(
      () => ({ execution_state: 'restarting' }),
      () => ({ execution_state: 'dead' }),
    );

  const abortOthers = () => {
    for (const cell of pending.values()) if (cell.execution === undefined) cell.isAborted = true;
  };

  /** Sends the messages of a cell that has not run, at the latest when the client is back. */
  const finish = async (cell: PendingCell, messages: ServerMessage[], to = sink): Promise<void> => {
    cell.unsent = messages;
    await send(messages, to);
    if (to?.peer.isOpen()) pending.delete(cell.request.header.msg_id);
  };

  const follow = async (
    cell: PendingCell,
    { header, code, storesHistory, allowsInput, expressions }: Cell,
  ): Promise<void> => {
    const message = {
      id: header.msg_id,
      session,
      username: header.username,
      storeHistory: storesHistory,
      allowStdin: allowsInput,
      expressions,
    };
    const { row, events } = await executions.start(ref, {
      code,
      context: kernel,
      timeoutSeconds,
      message,
      isLong: true,
    });
    cell.execution = row.id;
    noteOrigin(row.id, header);
    for await (const event of events ?? []) {
      note(row.id, event);
      const isEnd = event.type === 'done';
      const isDead = isEnd && event.stateLost && event.status !== 'lost';
      const state = isDead ? await renew() : undefined;
      if (isDead || (isEnd && event.status !== 'ok' && cell.request.stopsOnError)) abortOthers();
      await deliver(cell, row.id, event);
      if (state) await send([toMessage(undefined, { channel: 'iopub', type: 'status', content: state })]);
    }
  };

  const run = async (cell: PendingCell, ask: Cell): Promise<void> => {
    if (cell.isAborted) return await finish(cell, cell.translation.aborted());
    try {
      await follow(cell, ask);
    } catch (thrown) {
      // Another gateway continues the cell.
      if (stopping.aborted) return;
      abortOthers();
      await finish(cell, cell.translation.failed(asCodeBoxError(thrown)));
    }
  };

  /** Sends the messages of a cell that a client has missed, and follows the cell to its end. */
  const resume = async (cell: PendingCell, execution: string, to: Sink): Promise<void> => {
    for await (const event of executions.events(ref, execution, cell.seq, to.peer.closed)) {
      note(execution, event);
      await send(cell.translation.of(execution, event), to);
      if (!to.peer.isOpen()) return;
      cell.seq = event.seq;
      if (event.type === 'done') pending.delete(cell.request.header.msg_id);
    }
  };

  /** Finds the cells that another gateway has started for this client. */
  const adopt = async (): Promise<PendingCell[]> => {
    const found = (await executions.ofSession(ref, session)).filter(({ context }) => context === kernel);
    return found.flatMap(({ id: execution, message }) => {
      if (!message || pending.has(message.id) || origins.has(execution)) return [];
      const header: Header = { msg_id: message.id, msg_type: 'execute_request', session, username: message.username };
      noteOrigin(execution, header);
      const request = { header, stopsOnError: false };
      const translation = createTranslation({ header, code: '', isSilent: false, storesHistory: true }, origins);
      const cell = { request, translation, execution, seq: 0, isLive: false };
      pending.set(message.id, cell);
      return [cell];
    });
  };

  /** Sends what the client has missed of one cell. Resolves with false for a cell that another gateway has not recorded yet. */
  const sendMissedOf = async (cell: PendingCell, to: Sink): Promise<boolean> => {
    const { execution } = cell;
    if (cell.unsent) await finish(cell, cell.unsent, to);
    else if (execution === undefined) cell.isLive = true;
    else if (!cell.isLive) {
      try {
        await resume(cell, execution, to);
      } catch (error) {
        if (!hasCode(error, 'not_found')) throw error;
        pending.delete(cell.request.header.msg_id);
        origins.delete(execution);
        return false;
      }
    }
    return true;
  };

  /** Sends what the client has missed. Resolves with whether there were cells that another gateway has started. */
  const sendMissed = async (to: Sink): Promise<'none' | 'unrecorded' | 'some'> => {
    const adopted = new Set(await adopt());
    for (const cell of adopted) await send(cell.translation.cleared(), to);
    let isSome = false;
    for (const cell of [...pending.values()]) {
      if (!to.peer.isOpen()) break;
      const isSent = await sendMissedOf(cell, to);
      isSome ||= isSent && adopted.has(cell);
    }
    return isSome ? 'some' : adopted.size > 0 ? 'unrecorded' : 'none';
  };

  /** The other gateway may still live, and start the cells that wait there one after the other. */
  const catchUp = async (to: Sink): Promise<void> => {
    let left = 0;
    do {
      const found = await sendMissed(to);
      if (found === 'some' || (found === 'unrecorded' && left === 0)) left = othersTries;
      else left -= 1;
      if (left > 0) await sleep(othersPauseMs, undefined, { signal: to.peer.closed });
    } while (left > 0 && to.peer.isOpen());
  };

  return {
    isConnected,

    /** Connects the client, in place of an earlier connection of it. */
    connect(to: Sink, log: Logger): void {
      sink?.peer.close(1000, 'The session has connected again.');
      sink = to;
      caughtUp = catchUp(to).catch((err: unknown) => {
        if (to.peer.isOpen()) log.warn({ err }, 'a Jupyter client could not get what it has missed');
      });
    },

    /** Runs a cell after the ones before it. */
    submit(ask: Cell): void {
      const { header, code } = ask;
      // A client that sends a cell again does not mean to run it twice.
      if (pending.has(header.msg_id)) return;
      const cell: PendingCell = {
        request: { header, stopsOnError: ask.stopsOnError },
        translation: createTranslation(ask, origins),
        seq: 0,
        isLive: true,
      };
      if (waiting >= maxWaiting || waitingCharacters + code.length > maxWaitingCharacters) {
        void send(
          cell.translation.failed(new CodeBoxError('too_many_requests', 'Too many cells wait in this session.')),
        );
        return;
      }
      waiting += 1;
      waitingCharacters += code.length;
      pending.set(header.msg_id, cell);
      const release = ask.keep();
      last = last
        .then(() => ask.after)
        .then(() => caughtUp)
        .then(() => run(cell, ask))
        .catch(() => {})
        .finally(() => {
          waiting -= 1;
          waitingCharacters -= code.length;
          release();
        });
    },

    /** Sends the reply to `input()`; resolves with false when no cell waits for one. */
    async input(text: string): Promise<boolean> {
      if (asking === undefined) return false;
      const execution = asking;
      asking = undefined;
      await executions.input(ref, execution, text);
      return true;
    },

    send,
  };
};

export type Session = ReturnType<typeof createSession>;
