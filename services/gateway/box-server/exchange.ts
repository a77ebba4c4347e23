import type { ClientRequest, IncomingMessage } from 'node:http';
import type { Socket } from 'node:net';
import type { Readable } from 'node:stream';
import { CodeBoxError, hasCode } from '#contract';
import type { Tunnels } from './tunnel.ts';

/** One request to a server inside a box. */
export interface PortRequest {
  method: string;
  /** Path and query, as they go out. */
  path: string;
  /** Names and values in turn, without those of the connection. */
  headers: string[];
  /** Absent when there is none; a stream that fails ends the request. */
  body?: Readable;
  isWebSocket: boolean;
  /** Aborted when nobody waits any more. */
  leave: AbortSignal;
}

/** What the server answered; `socket` when it has agreed to become a WebSocket, with what has come on it already. */
export interface PortAnswer {
  head: IncomingMessage;
  upgraded?: { socket: Socket; first: Buffer };
}

const maxHeaderBytes = 64 * 1024;
const maxHeaders = 500;
/** Answers of 1xx before the real one. */
const maxInformation = 20;
/** Nothing moves in either direction for this long: the connection is given up. */
const silenceMs = 600_000;
const repeatable = new Set(['GET', 'HEAD', 'OPTIONS']);

/**
 * Sends a request to a port of a box and answers once the head of its answer is there, whose body the caller reads. The
 * server is hostile: it has `answerMs` from the last byte of the request, and its head is bounded. Throws `timeout`,
 * `bad_gateway`, and what opening a tunnel throws.
 */
export const exchange = async (
  tunnels: Tunnels,
  port: number,
  ask: PortRequest,
  answerMs: number,
): Promise<PortAnswer> => {
  const mayShare = repeatable.has(ask.method) && !ask.body && !ask.isWebSocket;
  const first = send(tunnels, port, ask, answerMs, mayShare);
  try {
    return await first.answer;
  } catch (error) {
    // A server may end a connection just when it is used again. It has not begun to answer, and may be asked twice.
    const isStale = first.request.reusedSocket && hasCode(error, 'bad_gateway');
    if (!isStale || ask.leave.aborted) throw error;
    return await send(tunnels, port, ask, answerMs, false).answer;
  }
};

const send = (
  tunnels: Tunnels,
  port: number,
  ask: PortRequest,
  answerMs: number,
  mayShare: boolean,
): { request: ClientRequest; answer: Promise<PortAnswer> } => {
  const connection = ask.isWebSocket ? ['Upgrade', 'Upgrade', 'websocket'] : [mayShare ? 'keep-alive' : 'close'];
  const headers = [...ask.headers, 'Connection', ...connection];
  const { method, path } = ask;
  const request = tunnels.request(port, { method, path, headers, maxHeaderSize: maxHeaderBytes }, mayShare);
  const answer = answerOf(request, port, ask, answerMs);
  if (ask.body) ask.body.pipe(request);
  else request.end();
  return { request, answer };
};

const answerOf = (request: ClientRequest, port: number, ask: PortRequest, answerMs: number): Promise<PortAnswer> =>
  new Promise((answered, failed) => {
    const refuse = (text: string, cause?: unknown) =>
      request.destroy(new CodeBoxError('bad_gateway', `The server on port ${port} in this box ${text}.`, { cause }));
    const deadline = setTimeout(() => {
      request.destroy(new CodeBoxError('timeout', `The server on port ${port} in this box did not answer in time.`));
    }, answerMs);
    const stopWaiting = () => {
      ask.body?.off('data', progress);
      clearTimeout(deadline);
    };
    const leave = () => request.destroy();
    ask.leave.addEventListener('abort', leave, { once: true });
    const progress = () => deadline.refresh();
    ask.body?.on('data', progress);
    request.setTimeout(silenceMs, () => request.destroy());
    // Bounded by their size; without this, what is over a number is left out in silence.
    request.maxHeadersCount = 0;

    let information = 0;
    request.on('information', () => {
      information += 1;
      if (information > maxInformation) refuse('sends no end of provisional answers');
    });
    request.on('error', (error) => failed(translate(error, port)));
    request.once('close', () => {
      stopWaiting();
      ask.leave.removeEventListener('abort', leave);
      // Not every end of a connection is an error to Node: an upgrade that nobody asked for is none.
      failed(translate(new Error('closed'), port));
    });
    const accept = (answer: PortAnswer) => {
      stopWaiting();
      // Whoever reads the body learns of its errors; one that is left half read must not end the process.
      answer.head.on('error', () => {});
      if (answer.head.rawHeaders.length > 2 * maxHeaders) return refuse('sent too many headers');
      answered(answer);
    };
    request.once('response', (head) => accept({ head }));
    if (!ask.isWebSocket) return;
    request.once('upgrade', (head, stream, first) => {
      // A request through a tunnel is answered on its socket.
      const socket = stream as Socket;
      if (head.headers.upgrade?.toLowerCase() === 'websocket') return accept({ head, upgraded: { socket, first } });
      socket.destroy();
      failed(new CodeBoxError('bad_gateway', `The server on port ${port} in this box speaks another protocol.`));
    });
  });

const translate = (cause: Error & { code?: string }, port: number): CodeBoxError => {
  if (cause instanceof CodeBoxError) return cause;
  const broken =
    cause.code === 'HPE_HEADER_OVERFLOW'
      ? 'sent too long headers'
      : cause.code?.startsWith('HPE_')
        ? 'sent something that is not HTTP'
        : 'closed the connection without an answer';
  return new CodeBoxError('bad_gateway', `The server on port ${port} in this box ${broken}.`, { cause });
};
