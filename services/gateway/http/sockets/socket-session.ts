import type { Logger } from 'pino';
import {
  CodeBoxError,
  type CreateExecution,
  type ExecutionEvent,
  type SocketMessage,
  type SocketRequest,
  socketRequestSchema,
} from '#contract';
import { readFrame } from '../../../http/bodies/frame.ts';
import { faulty } from '../../../http/faults/fault.ts';
import { asCodeBoxError, toProblem } from '../../../http/problems/problem.ts';
import { closeCodes, type Peer } from '../../../websockets/peer.ts';
import type { Executions } from '../../boxes/runs/executions.ts';

export interface SessionOptions {
  executions: Executions;
  tenant: string;
  box: string;
  requestId: string;
  log: Logger;
  /** Counts a message as a request; throws when the tenant has no request left. */
  count: () => Promise<void>;
}

type Operation = Exclude<SocketRequest, { op: 'ping' }>;

/** The most operations of one connection at a time. */
const maxOperations = 64;
/** While more bytes of messages wait for their operations to start, no further ones are read. */
const maxWaitingBytes = 16 * 1024 * 1024;

/**
 * Serves many executions over one WebSocket. Operations are concurrent, and each pauses while the client does not read; code starts in
 * the order in which it was received. When the connection ends, events are no longer read and code that has not started is dropped.
 * Executions that run go on, and a client can attach to them again.
 */
export const serveSession = (peer: Peer, options: SessionOptions): void => {
  const { executions, tenant, box, requestId, log, count } = options;
  const open = new Set<string>();
  const { closed } = peer;
  let lastStart: Promise<unknown> = Promise.resolve();
  let waitingBytes = 0;
  let room: PromiseWithResolvers<void> | undefined;
  const send = (message: SocketMessage) => peer.send(JSON.stringify(message));

  const refuse = async (id: string | null, thrown: unknown) => {
    const error = asCodeBoxError(thrown);
    if (error.code === 'internal' || error.code === 'unavailable') log.error({ err: thrown }, error.message);
    await send({ id, type: 'problem', problem: toProblem(error, requestId) });
  };

  /** Refuses a frame before it starts an operation. It still counts as a request, and too many such frames end the connection. */
  const refuseFrame = async (id: string | null, error: CodeBoxError) => {
    if (!peer.tolerate()) return;
    const over = await count().then(
      () => undefined,
      (cause: unknown) => cause,
    );
    await refuse(id, over ?? error);
  };

  const forward = async (id: string, execution: string, events: AsyncIterable<ExecutionEvent>): Promise<boolean> => {
    let isDone = false;
    for await (const event of events) {
      await send({ id, type: 'event', execution, event });
      if (closed.aborted) break;
      isDone = event.type === 'done';
    }
    return isDone;
  };

  const execute = async ({ id, op: _, ...request }: Extract<Operation, { op: 'execute' }>) => {
    const counted = count();
    counted.catch(() => {});
    const start = lastStart.then(async () => {
      await counted;
      // Until it is accepted, it can be dropped when the client has left.
      closed.throwIfAborted();
      return executions.start({ tenant, box }, request satisfies CreateExecution, closed);
    });
    lastStart = start.catch(() => {});
    const { row, events } = await start;
    await send({ id, type: 'accepted', execution: row.id });
    if (events) await forward(id, row.id, events);
  };

  const attach = async ({ id, execution, after = 0 }: Extract<Operation, { op: 'attach' }>) => {
    await executions.find({ tenant, box }, execution);
    await send({ id, type: 'accepted', execution });
    if (await forward(id, execution, executions.events({ tenant, box }, execution, after, closed))) return;
    // The stream had no `done` after that position: send the recorded one, so that the client does not wait for it.
    const { done } = await executions.read({ tenant, box }, execution);
    if (done) await send({ id, type: 'event', execution, event: done });
  };

  const perform = async (operation: Operation): Promise<void> => {
    if (operation.op === 'execute') return await execute(operation);
    await count();
    if (operation.op === 'attach') return await attach(operation);
    const { id, execution } = operation;
    if (operation.op === 'input') await executions.input({ tenant, box }, execution, operation.text);
    else await executions.interrupt({ tenant, box }, execution);
    await send({ id, type: 'accepted', execution });
  };

  const begin = (operation: Operation, bytes: number): Promise<void> | undefined => {
    const { id } = operation;
    if (open.has(id))
      return refuseFrame(id, new CodeBoxError('conflict', 'An operation with this id is in progress; use another id.'));
    if (open.size >= maxOperations) {
      const text = `${maxOperations} operations are in progress on this connection. Wait until one has ended.`;
      return refuseFrame(id, new CodeBoxError('too_many_requests', text, { retryAfterSeconds: 1 }));
    }
    open.add(id);
    // An execution keeps its code until it has ended.
    const release = peer.keep();
    // Not awaited: operations are concurrent. Errors are sent to the client unless it has left.
    void perform(operation)
      .catch((error: unknown) => (closed.aborted ? undefined : refuse(id, error)))
      .finally(() => {
        open.delete(id);
        release();
      });
    waitingBytes += bytes;
    void lastStart.then(() => {
      waitingBytes -= bytes;
      if (waitingBytes <= maxWaitingBytes) room?.resolve();
    });
    if (waitingBytes <= maxWaitingBytes) return undefined;
    room = Promise.withResolvers();
    return room.promise;
  };

  peer.receive((data, isBinary) => {
    if (isBinary) {
      peer.close(closeCodes.unsupported, 'Send text frames.');
      return undefined;
    }
    const frame = readFrame(socketRequestSchema, data);
    if (!('value' in frame)) return refuseFrame(frame.id, faulty(frame.faults));
    if (frame.value.op !== 'ping') return begin(frame.value, data.length);
    return peer.tolerate() ? send({ type: 'pong' }) : undefined;
  });
};
