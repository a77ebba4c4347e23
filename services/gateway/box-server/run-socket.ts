import { Readable } from 'node:stream';
import { errors } from 'undici';
import { closeCodes, type Peer } from '../../websockets/peer.ts';
import { brokenProtocol } from './protocol/broken-protocol.ts';
import { readRefusal } from './protocol/response.ts';
import { openBoxWebSocket } from './transport/box-websocket.ts';
import type { Endpoint } from './transport/endpoint.ts';

/** In characters. */
const maxBodyLength = 256 * 1024;
/** The most that a box sends of one run, where each reply counts `replyBytes` beyond its events. That much may wait for a slow reader. */
const maxRunBytes = 258 * 1024;
const replyBytes = 1024;
const maxHeadBytes = 256;
/** The most runs that may share a connection. It bounds what waits for slow readers. */
const maxRuns = 64;

export interface RunSocketOptions {
  /** How long the box may take to accept a run. */
  deadlineMs: number;
  /** How long a run may be without replies. The box sends a heartbeat every 10 s. */
  silenceMs: number;
  /** Runs that start within this time of each other share a connection. It is closed when none has started for as long and none is open. */
  idleMs?: number;
}

/** The events of a run, one on each line, as far as the box sends them over the shared connection. */
export interface SharedRun {
  /** To be read to its end or destroyed. It has an error when the connection ends early. */
  lines: Readable;
  /** Whether the box has more events, which have to be requested. Known when `lines` has ended. */
  hasMore: boolean;
}

interface OpenRun extends SharedRun {
  accepted: PromiseWithResolvers<SharedRun>;
  deadline: NodeJS.Timeout;
  /** Set when it was accepted. */
  silence?: NodeJS.Timeout;
  bytes: number;
}

/**
 * The connection that the runs of one box share. A box whose runs follow each other gets one: a run then costs two messages instead of an HTTP
 * request.
 */
export const createRunSocket = (endpoint: Endpoint, options: RunSocketOptions) => {
  const { silenceMs, idleMs = 60_000 } = options;
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
        // A box may be silent for that long.
        pingMs: silenceMs,
        missing: 'The box server has no connection for runs.',
      });
      const opened = createConnection(peer, { ...options, idleMs });
      if (isClosed) return opened.close();
      connection = opened;
      peer.closed.addEventListener('abort', () => {
        if (connection === opened) connection = undefined;
      });
    } catch {
      // Runs are sent as requests instead, which report what is wrong with the box.
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

const createConnection = (peer: Peer, { deadlineMs, silenceMs, idleMs }: Required<RunSocketOptions>) => {
  /** Runs whose replies the box has not ended, including those that nobody reads any more. */
  const runs = new Map<string, OpenRun>();
  /** The number of runs whose replies may still wait for a reader, including those that have ended. */
  let unread = 0;

  const failAll = (error: Error): void => {
    for (const { lines } of runs.values()) lines.destroy(error);
    runs.clear();
  };
  const failProtocol = (): void => {
    failAll(brokenProtocol('The box sent a reply that makes no sense.'));
    peer.close(closeCodes.refused, 'a reply that makes no sense');
  };

  const accept = (run: OpenRun): void => {
    if (run.lines.destroyed) return;
    if (run.silence) return void run.silence.refresh();
    clearTimeout(run.deadline);
    run.silence = setTimeout(() => run.lines.destroy(new errors.BodyTimeoutError()), silenceMs);
    run.accepted.resolve(run);
  };
  const refuse = async (run: OpenRun, status: number, content: Buffer): Promise<void> => {
    run.lines.destroy(await readRefusal(status, Readable.from([content])).catch((error: Error) => error));
  };

  /** Handles `{id} {mark}`, a line end, and events or an error. The box is not trusted. */
  const receive = (reply: Buffer): Promise<void> | undefined => {
    const headEnd = reply.subarray(0, maxHeadBytes).indexOf(10);
    const [id = '', mark = '', ...others] = reply.toString('latin1', 0, Math.max(headEnd, 0)).split(' ');
    const run = runs.get(id);
    if (!run || others.length > 0) return void failProtocol();
    // A copy, as the message may be part of a larger buffer, and this part may wait.
    const content = Buffer.from(reply.subarray(headEnd + 1));
    run.bytes += content.length + replyBytes;
    if (run.bytes > maxRunBytes) return void failProtocol();
    const isEnd = mark === 'end' || mark === 'rest';
    if (isEnd || mark === 'more') {
      accept(run);
      run.hasMore = mark === 'rest';
      run.lines.push(content);
    } else if (run.silence || !/^[45]\d\d$/.test(mark)) return void failProtocol();
    if (mark === 'more') return undefined;
    runs.delete(id);
    clearTimeout(run.silence);
    if (!isEnd) return refuse(run, Number(mark), content);
    run.lines.push(null);
    return undefined;
  };

  const idle = setTimeout(() => {
    if (runs.size > 0) idle.refresh();
    else peer.close(closeCodes.normal, 'idle');
  }, idleMs).unref();
  peer.closed.addEventListener('abort', () => {
    clearTimeout(idle);
    failAll(new errors.SocketError('The connection has ended.'));
  });
  peer.receive(receive);

  return {
    run(id: string, body: string, leave: AbortSignal): Promise<SharedRun> | undefined {
      const hasRoom = Math.max(runs.size, unread) < maxRuns && body.length <= maxBodyLength;
      if (!hasRoom || !peer.isOpen() || leave.aborted) return undefined;
      const lines = new Readable({ read() {} });
      const deadline = setTimeout(() => lines.destroy(new errors.HeadersTimeoutError()), deadlineMs);
      const run: OpenRun = { lines, accepted: Promise.withResolvers(), deadline, bytes: 0, hasMore: false };
      const abort = () => void lines.destroy(new errors.RequestAbortedError());
      leave.addEventListener('abort', abort, { once: true });
      unread += 1;
      lines.once('close', () => {
        unread -= 1;
        leave.removeEventListener('abort', abort);
        clearTimeout(deadline);
        clearTimeout(run.silence);
      });
      lines.on('error', run.accepted.reject);
      runs.set(id, run);
      idle.refresh();
      void peer.send(Buffer.from(`${id}\n${body}`));
      return run.accepted.promise;
    },
    close(): void {
      failAll(new errors.ClientDestroyedError());
      peer.close(closeCodes.goingAway, 'the gateway leaves');
    },
  };
};
