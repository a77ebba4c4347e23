import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { pipeline } from 'node:stream/promises';
import { RESPONSE_ALREADY_SENT } from '@hono/node-server/utils/response';
import type { Context, MiddlewareHandler } from 'hono';
import { CodeBoxError } from '#contract';
import type { PortAnswer, PortRequest, Ports } from '../../boxes/reach/ports.ts';
import type { OpenSocket, OpenSockets } from '../admission/open-sockets.ts';
import { type Env, noteBox } from '../env.ts';
import { type PortAccess, splitTicket } from './access.ts';
import { toPairs } from './header-pairs.ts';
import { joinWebSocket, silenceMs } from './join.ts';
import { requestHeaders } from './request-headers.ts';
import { responseHeaders } from './response-headers.ts';
import { byHost, byPath, readTarget, type Target, type TargetReader } from './target.ts';

/** The ports of boxes in the way of a surface that has hosts or headers of its own for them. */
export interface PortClaim {
  readers: readonly TargetReader[];
  /** Lets a request for a port in; throws what refuses it. */
  letIn: (c: Context<Env>) => Promise<void>;
}

export interface PortProxyOptions {
  ports: Ports;
  access: PortAccess;
  /** Where `<port>-<box>.<domain>` is a host of its own for each port. */
  domain: string;
  openSockets: OpenSockets;
  /** The surface that a request is for by its host or headers, before any port is looked for. */
  claimOf: (c: Context<Env>) => PortClaim | undefined;
}

/** The route, for logs and metrics. */
export const portRoute = '/v1/boxes/{box}/ports/{port}/{path}';

/**
 * Passes requests for a server inside a box on to it, and its answers back, as they are: any method, any path, streamed both
 * ways. It comes before everything that looks at a path, because the path is the server's.
 */
export const servePorts = ({
  ports,
  access,
  domain,
  openSockets,
  claimOf,
}: PortProxyOptions): MiddlewareHandler<Env> => {
  const own: readonly TargetReader[] = [byHost(domain), byPath];
  return async (c, next) => {
    const { incoming, outgoing, upgrade } = c.env ?? {};
    const claim = claimOf(c);
    const asked = incoming && readTarget(incoming, claim?.readers ?? own);
    if (!asked || !outgoing) return await next();
    c.set('route', portRoute);
    const { target, ticket } = claim ? { target: asked, ticket: undefined } : splitTicket(asked);
    if (asked.isUnslashed && asksForPage(incoming)) return c.redirect(`${asked.prefix}${asked.path}`, 308);
    noteBox(c, target.box);
    const way = claim ? await claim.letIn(c) : await access.admit(c, incoming, target, ticket);
    const isPage = !upgrade && (incoming.method === 'GET' || incoming.method === 'HEAD');
    if (upgrade) openSockets.expectRoom(c);
    if (way === 'ticket' && isPage) return await access.open(c, incoming, target);
    const leave = new AbortController();
    const ask = toRequest(incoming, target, c.get('requestId'), upgrade !== undefined, leave.signal);
    if (upgrade) {
      // The exchange has a deadline of its own.
      incoming.socket.setTimeout(silenceMs);
      incoming.socket.once('close', () => leave.abort());
    } else {
      // Over, whichever way: what is left of it at the server is not wanted any more.
      outgoing.once('close', () => leave.abort());
    }
    const answer = await ports.send({ tenant: c.get('tenant'), box: target.box }, target.port, ask);
    const headers = responseHeaders(answer.head, target, incoming.headers.host ?? '', c.get('requestId'));
    if (upgrade && answer.upgraded) {
      openSockets.keep(c, accept(upgrade.take(), answer.upgraded, headers));
      // Nobody gets this: the handshake has been answered.
      return c.body(null);
    }
    writeHead(outgoing as ServerResponse, answer, headers, incoming.complete);
    pipeline(answer.head, outgoing).catch((err: unknown) =>
      c.get('log').info({ err }, 'an answer of a port broke off'),
    );
    return RESPONSE_ALREADY_SENT;
  };
};

/** A browser takes the links of a page from its last slash on: without one behind the port they would lead elsewhere. */
const asksForPage = ({ headers, method }: IncomingMessage): boolean =>
  (method === 'GET' || method === 'HEAD') && headers.accept?.includes('text/html') === true;

const toRequest = (
  incoming: IncomingMessage,
  target: Target,
  requestId: string,
  isWebSocket: boolean,
  leave: AbortSignal,
): PortRequest => {
  const { headers, method = 'GET' } = incoming;
  const hasBody = headers['transfer-encoding'] !== undefined || headers['content-length'] !== undefined;
  return {
    method,
    path: target.path,
    headers: requestHeaders(incoming, target, requestId),
    ...(hasBody && !isWebSocket && { body: incoming }),
    isWebSocket,
    leave,
  };
};

/** Answers the handshake as the server did, then lets both talk. */
const accept = (
  client: { socket: Socket; head: Buffer },
  server: { socket: Socket; first: Buffer },
  headers: string[],
): OpenSocket => {
  const lines = toPairs([...headers, 'Connection', 'Upgrade', 'Upgrade', 'websocket']).map((pair) => pair.join(': '));
  client.socket.write(`HTTP/1.1 101 Switching Protocols\r\n${lines.join('\r\n')}\r\n\r\n`, 'latin1');
  if (server.first.length > 0) server.socket.unshift(server.first);
  if (client.head.length > 0) client.socket.unshift(client.head);
  return joinWebSocket(client.socket, server.socket);
};

const writeHead = (outgoing: ServerResponse, { head }: PortAnswer, headers: string[], isComplete: boolean): void => {
  try {
    const coding = head.headers['transfer-encoding'];
    if (coding !== undefined && coding.trim().toLowerCase() !== 'chunked') throw new Error(`coded as ${coding}`);
    // What still comes of the request must not be taken for the next one.
    const connection = isComplete ? [] : ['Connection', 'close'];
    outgoing.writeHead(head.statusCode ?? 0, head.statusMessage ?? '', [...headers, ...connection]);
    // The first byte of a stream may come much later. `flushHeaders` would send the bytes of Latin-1 as UTF-8.
    outgoing.write(Buffer.alloc(0));
  } catch (cause) {
    head.destroy();
    throw new CodeBoxError('bad_gateway', 'The server in this box sent an answer that cannot be passed on.', { cause });
  }
};
