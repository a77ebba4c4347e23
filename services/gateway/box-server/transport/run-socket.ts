import { addAbortSignal, Readable } from 'node:stream';
import { errors } from 'undici';
import { closeCodes, type Peer } from '../../../websockets/peer.ts';
import { brokenProtocol } from '../protocol/broken-protocol.ts';
import { readRefusal } from '../protocol/response.ts';
import { openBoxWebSocket } from './box-websocket.ts';
import type { Endpoint } from './endpoint.ts';

const maxRequestBytes = 256 * 1024;
/** A little more than a box sends of the events of one run: they may wait here for a slow reader. */
const maxRunBytes = 257 * 1024;
const maxHeadBytes = 256;
/** How many runs may share a connection, so that what waits in it is bounded. */
const maxRuns = 64;
/** Runs that follow each other within this time share a connection, which is closed when it was not used for as long. */
const idleMs = 60_000;

/** The events of a run, one on each line, as far as the box sends them over the shared connection. */
export interface SharedRun {
  /** To be read to its end or destroyed. It has an error when the connection ends early. */
  lines: Readable;
  /** Whether the box has more events, which have to be requested. Known when `lines` has ended. */
  hasMore: boolean;
}

interface OpenRun extends SharedRun {
  accepted: PromiseWithResolvers<SharedRun>;
  late: NodeJS.Timeout;
  bytes: number;
}

/**
 * The connection that the runs of one box share. A box whose runs follow each other gets one: a run then costs two messages instead of an HTTP
 * request. `deadlineMs` is the time in which the box has to accept a run.
 */
export const createRunSocket = (endpoint: Endpoint, deadlineMs: number) => {
  let connection: Connection | undefined;
  let isOpening = false;
  let isClosed = false;
  let lastAt = Number.NEGATIVE_INFINITY;

  const open = async (): Promise<void> => {
    isOpening = true;
    try {
      const peer = await openBoxWebSocket(endpoint, {
        path: 'codebox/runs',
        maxMessageBytes: maxHeadBytes + maxRunBytes,
        missing: 'The box server has no connection for runs.',
      });
      const opened = createConnection(peer, deadlineMs);
      if (isClosed) return opened.close();
      connection = opened;
      peer.closed.addEventListener('abort', () => {
        if (connection === opened) connection = undefined;
      });
    } catch {
      // Requests do without it, and report what is wrong with the box.
    } finally {
      isOpening = false;
    }
  };

  return {
    /**
     * Sends a request to run code; resolves when the box has accepted it. Returns undefined when it has to be sent as an HTTP request: there is
     * no connection yet, no room in it, or the request is too long. Throws the refusal of the box, and errors of undici.
     */
    run(id: string, body: string, leave: AbortSignal): Promise<SharedRun> | undefined {
      const now = performance.now();
      const followsAnother = now - lastAt < idleMs;
      lastAt = now;
      if (connection) return connection.run(id, body, leave);
      if (followsAnother && !isOpening && !isClosed) void open();
      return undefined;
    },

    close(): void {
      isClosed = true;
      connection?.close();
    },
  };
};

type Connection = ReturnType<typeof createConnection>;

const createConnection = (peer: Peer, deadlineMs: number) => {
  /** The runs whose replies the box has not ended, also when nobody reads them any more. */
  const runs = new Map<string, OpenRun>();
  let isOpen = true;

  const close = (code: number, reason: string): void => {
    isOpen = false;
    peer.close(code, reason);
  };
  const failAll = (error: Error): void => {
    for (const { lines } of runs.values()) lines.destroy(error);
    runs.clear();
  };
  const violate = (): void => {
    failAll(brokenProtocol('The box sent a reply that makes no sense.'));
    close(closeCodes.refused, 'a reply that makes no sense');
  };
  const accept = (run: OpenRun, content: Buffer): void => {
    clearTimeout(run.late);
    run.accepted.resolve(run);
    run.lines.push(content);
  };
  const refuse = async (run: OpenRun, status: number, content: Buffer): Promise<void> => {
    run.lines.destroy(await readRefusal(status, Readable.from([content])).catch((error: Error) => error));
  };

  /** Handles `{id} {mark}`, a line end, and events or an error. The box is not trusted. */
  const receive = (reply: Buffer): Promise<void> | undefined => {
    const headBytes = reply.subarray(0, maxHeadBytes).indexOf(10);
    const [id = '', mark = ''] = reply.toString('latin1', 0, Math.max(headBytes, 0)).split(' ');
    const run = runs.get(id);
    if (!run) return void violate();
    const content = reply.subarray(headBytes + 1);
    // A reply without content counts too, so that their number is bounded.
    run.bytes += Math.max(content.length, 1);
    if (run.bytes > maxRunBytes) return void violate();
    if (mark === 'more') return void accept(run, content);
    const isEnd = mark === 'end' || mark === 'rest';
    if (!isEnd && !(Number(mark) >= 400)) return void violate();
    runs.delete(id);
    if (!isEnd) return refuse(run, Number(mark), content);
    run.hasMore = mark === 'rest';
    accept(run, content);
    run.lines.push(null);
    return undefined;
  };

  const idle = setTimeout(() => {
    if (runs.size > 0) idle.refresh();
    else close(closeCodes.normal, 'idle');
  }, idleMs).unref();
  peer.closed.addEventListener('abort', () => {
    isOpen = false;
    clearTimeout(idle);
    failAll(new errors.SocketError('The connection has ended.'));
  });
  peer.receive(receive);

  return {
    run(id: string, body: string, leave: AbortSignal): Promise<SharedRun> | undefined {
      if (!isOpen || runs.size >= maxRuns || Buffer.byteLength(body) > maxRequestBytes) return undefined;
      const lines = new Readable({ read() {} });
      const accepted = Promise.withResolvers<SharedRun>();
      const late = setTimeout(() => lines.destroy(new errors.HeadersTimeoutError()), deadlineMs);
      lines.on('error', accepted.reject);
      lines.once('close', () => clearTimeout(late));
      runs.set(id, { lines, accepted, late, bytes: 0, hasMore: false });
      idle.refresh();
      void peer.send(`${id}\n${body}`);
      addAbortSignal(leave, lines);
      return accepted.promise;
    },
    close(): void {
      failAll(new errors.ClientDestroyedError());
      close(closeCodes.goingAway, 'the gateway leaves');
    },
  };
};
