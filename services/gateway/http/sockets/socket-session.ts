import type { Logger } from 'pino';
import {
  CodeBoxError,
  type CreateExecution,
  type ExecutionEvent,
  type SocketMessage,
  type SocketRequest,
  socketRequestSchema,
} from '#contract';
import { faulty } from '../../../http/fault.ts';
import { readFrame } from '../../../http/frame.ts';
import { asCodeBoxError, toProblem } from '../../../http/problem.ts';
import { closeCodes, type Peer } from '../../../websockets/peer.ts';
import type { Executions } from '../../boxes/runs/executions.ts';

export interface SessionOptions {
  executions: Executions;
  tenant: string;
  box: string;
  requestId: string;
  log: Logger;
  /** Counts a message as a request; throws when there may be none now. */
  count: () => Promise<void>;
}

type Operation = Exclude<SocketRequest, { op: 'ping' }>;

/** Operations of one connection at a time. */
const maxOperations = 64;

/**
 * Many executions over one WebSocket. Each operation goes on by itself, and waits while the client does not take what is sent;
 * code is started in the order in which it came.
 * The end of the connection stops reading, and what waits to be started: what runs can be attached to again.
 */
export const serveSession = (peer: Peer, options: SessionOptions): void => {
  const { executions, tenant, box, requestId, log, count } = options;
  const open = new Set<string>();
  const leave = peer.closed;
  // Code reaches its box in the order in which it was sent.
  let lastStart: Promise<unknown> = Promise.resolve();
  const tell = (message: SocketMessage) => peer.send(JSON.stringify(message));

  const refuse = async (id: string | null, thrown: unknown) => {
    const error = asCodeBoxError(thrown);
    if (error.code === 'internal' || error.code === 'unavailable') log.error({ err: thrown }, error.message);
    await tell({ id, type: 'problem', problem: toProblem(error, requestId) });
  };

  /** What is refused before it is begun counts all the same, and too much of it ends the connection. */
  const refuseFrame = async (id: string | null, error: CodeBoxError) => {
    if (!peer.tolerate()) return;
    const over = await count().then(
      () => undefined,
      (cause: unknown) => cause,
    );
    await refuse(id, over ?? error);
  };

  const pass = async (id: string, execution: string, events: AsyncIterable<ExecutionEvent>): Promise<boolean> => {
    let isDone = false;
    for await (const event of events) {
      await tell({ id, type: 'event', execution, event });
      if (leave.aborted) break;
      isDone = event.type === 'done';
    }
    return isDone;
  };

  const execute = async ({ id, op: _, ...ask }: Extract<Operation, { op: 'execute' }>) => {
    const counted = count();
    counted.catch(() => {});
    const start = lastStart.then(async () => {
      await counted;
      // Nobody has been told of it, so it can still be left out.
      leave.throwIfAborted();
      return executions.start({ tenant, box }, ask satisfies CreateExecution, leave);
    });
    lastStart = start.catch(() => {});
    const { row, events } = await start;
    await tell({ id, type: 'accepted', execution: row.id });
    if (events) await pass(id, row.id, events);
  };

  const attach = async ({ id, execution, after = 0 }: Extract<Operation, { op: 'attach' }>) => {
    await executions.find({ tenant, box }, execution);
    await tell({ id, type: 'accepted', execution });
    if (await pass(id, execution, executions.events({ tenant, box }, execution, after, leave))) return;
    // It had ended before that: the client is told so all the same, or it would wait.
    const { done } = await executions.read({ tenant, box }, execution);
    if (done) await tell({ id, type: 'event', execution, event: done });
  };

  const perform = async (operation: Operation): Promise<void> => {
    if (operation.op === 'execute') return await execute(operation);
    await count();
    if (operation.op === 'attach') return await attach(operation);
    const { id, execution } = operation;
    if (operation.op === 'input') await executions.input({ tenant, box }, execution, operation.text);
    else await executions.interrupt({ tenant, box }, execution);
    await tell({ id, type: 'accepted', execution });
  };

  const begin = (operation: Operation): Promise<void> | undefined => {
    const { id } = operation;
    if (open.has(id)) return refuseFrame(id, new CodeBoxError('conflict', 'This id is in use.'));
    if (open.size >= maxOperations) {
      const text = `${maxOperations} operations are in progress on this connection.`;
      return refuseFrame(id, new CodeBoxError('too_many_requests', text, { retryAfterSeconds: 1 }));
    }
    open.add(id);
    // Beside the others; what it throws is told to the client, who may have gone by then.
    void perform(operation)
      .catch((error: unknown) => (leave.aborted ? undefined : refuse(id, error)))
      .finally(() => open.delete(id));
    return undefined;
  };

  peer.receive((data, isBinary) => {
    if (isBinary) {
      peer.close(closeCodes.unsupported, 'Frames are text.');
      return undefined;
    }
    const frame = readFrame(socketRequestSchema, data);
    if (!('value' in frame)) return refuseFrame(frame.id, faulty(frame.faults));
    if (frame.value.op !== 'ping') return begin(frame.value);
    return peer.tolerate() ? tell({ type: 'pong' }) : undefined;
  });
};
