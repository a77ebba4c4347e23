import type { ClientRequest, IncomingMessage } from 'node:http';
import type { Socket } from 'node:net';
import type { Readable } from 'node:stream';
import { CodeBoxError, hasCode } from '#contract';
import type { Tunnels } from './tunnel.ts';

/** One request to a server inside a box. */
export interface PortRequest {
  method: string;
  /** Path and query, as sent. */
  path: string;
  /** Alternating names and values, without hop-by-hop headers. */
  headers: string[];
  /** The body, if there is one; when the stream fails, the request ends. */
  body?: Readable;
  isWebSocket: boolean;
  /** Aborted when the caller has left. */
  leave: AbortSignal;
}

/** The response of the server. `upgraded` is set when it has agreed to a WebSocket: its socket, with the first bytes received on it. */
export interface PortResponse {
  head: IncomingMessage;
  upgraded?: { socket: Socket; first: Buffer };
}

const maxHeaderBytes = 64 * 1024;
const maxHeaders = 500;
/** The most 1xx responses before the final one. */
const maxInformation = 20;
/** A connection is closed when nothing is sent or received for this long. */
const silenceMs = 600_000;
const repeatable = new Set(['GET', 'HEAD', 'OPTIONS']);

/**
 * Sends a request to a port of a box and resolves with the head of the response; the caller reads the body. The server is hostile: its
 * head must arrive within `responseMs` of the last byte of the request, and its size is bounded. Throws `timeout`, `bad_gateway`, and the
 * errors of opening a tunnel.
 */
export const exchange = async (
  tunnels: Tunnels,
  port: number,
  outgoing: PortRequest,
  responseMs: number,
): Promise<PortResponse> => {
  const mayShare = repeatable.has(outgoing.method) && !outgoing.body && !outgoing.isWebSocket;
  const first = send(tunnels, port, outgoing, responseMs, mayShare);
  try {
    return await first.response;
  } catch (error) {
    // A server may close a kept connection just when it is reused. It has not responded, and the request is repeatable.
    const isStale = first.request.reusedSocket && hasCode(error, 'bad_gateway');
    if (!isStale || outgoing.leave.aborted) throw error;
    return await send(tunnels, port, outgoing, responseMs, false).response;
  }
};

const send = (
  tunnels: Tunnels,
  port: number,
  outgoing: PortRequest,
  responseMs: number,
  mayShare: boolean,
): { request: ClientRequest; response: Promise<PortResponse> } => {
  const connection = outgoing.isWebSocket ? ['Upgrade', 'Upgrade', 'websocket'] : [mayShare ? 'keep-alive' : 'close'];
  const headers = [...outgoing.headers, 'Connection', ...connection];
  const { method, path } = outgoing;
  const request = tunnels.request(port, { method, path, headers, maxHeaderSize: maxHeaderBytes }, mayShare);
  const response = responseTo(request, port, outgoing, responseMs);
  if (outgoing.body) outgoing.body.pipe(request);
  else request.end();
  return { request, response };
};

const responseTo = (
  request: ClientRequest,
  port: number,
  outgoing: PortRequest,
  responseMs: number,
): Promise<PortResponse> =>
  new Promise((resolve, reject) => {
    const refuse = (text: string, cause?: unknown) =>
      request.destroy(new CodeBoxError('bad_gateway', `The server on port ${port} in this box ${text}.`, { cause }));
    const deadline = setTimeout(() => {
      request.destroy(new CodeBoxError('timeout', `The server on port ${port} in this box did not respond in time.`));
    }, responseMs);
    const stopWaiting = () => {
      outgoing.body?.off('data', progress);
      clearTimeout(deadline);
    };
    const leave = () => request.destroy();
    outgoing.leave.addEventListener('abort', leave, { once: true });
    const progress = () => deadline.refresh();
    outgoing.body?.on('data', progress);
    request.setTimeout(silenceMs, () => request.destroy());
    // The size of the head bounds them; with Node's default count, further headers would be dropped silently.
    request.maxHeadersCount = 0;

    let information = 0;
    request.on('information', () => {
      information += 1;
      if (information > maxInformation) refuse('sent too many provisional responses');
    });
    request.on('error', (error) => reject(translate(error, port)));
    request.once('close', () => {
      stopWaiting();
      outgoing.leave.removeEventListener('abort', leave);
      // Node does not report every end of a connection as an error, for example not an unrequested upgrade.
      reject(translate(new Error('closed'), port));
    });
    const accept = (response: PortResponse) => {
      stopWaiting();
      // Readers of the body get its errors anyway; without a listener, one that is left half read would end the process.
      response.head.on('error', () => {});
      if (response.head.rawHeaders.length > 2 * maxHeaders) return refuse('sent too many headers');
      resolve(response);
    };
    request.once('response', (head) => accept({ head }));
    if (!outgoing.isWebSocket) return;
    request.once('upgrade', (head, stream, first) => {
      // The stream of a request through a tunnel is its socket.
      const socket = stream as Socket;
      if (head.headers.upgrade?.toLowerCase() === 'websocket') return accept({ head, upgraded: { socket, first } });
      socket.destroy();
      reject(new CodeBoxError('bad_gateway', `The server on port ${port} in this box speaks another protocol.`));
    });
  });

const translate = (cause: Error & { code?: string }, port: number): CodeBoxError => {
  if (cause instanceof CodeBoxError) return cause;
  const broken =
    cause.code === 'HPE_HEADER_OVERFLOW'
      ? 'sent headers that are too long'
      : cause.code?.startsWith('HPE_')
        ? 'sent something that is not HTTP'
        : 'closed the connection without a response';
  return new CodeBoxError('bad_gateway', `The server on port ${port} in this box ${broken}.`, { cause });
};
