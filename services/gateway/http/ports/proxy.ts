import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { pipeline } from 'node:stream/promises';
import { RESPONSE_ALREADY_SENT } from '@hono/node-server/utils/response';
import type { Context, MiddlewareHandler } from 'hono';
import { CodeBoxError } from '#contract';
import type { Directory } from '../../boxes/life/directory.ts';
import type { PortRequest, PortResponse, Ports } from '../../boxes/reach/ports.ts';
import type { OpenSocket, OpenSockets } from '../admission/open-sockets.ts';
import { type Env, noteBox } from '../env.ts';
import { type PortAccess, splitTicket } from './access.ts';
import { toPairs } from './header-pairs.ts';
import { joinWebSocket, silenceMs } from './join.ts';
import { requestHeaders } from './request-headers.ts';
import { responseHeaders } from './response-headers.ts';
import { byHost, byPath, readTarget, type Target, type TargetReader } from './target.ts';

/** How a surface with its own hosts or headers for ports recognises and admits requests for them. */
export interface PortClaim {
  readers: readonly TargetReader[];
  /** Admits a request for a port; throws otherwise. */
  admit: (c: Context<Env>) => Promise<void>;
}

export interface PortProxyOptions {
  forward: Forwarding;
  access: PortAccess;
  /** The domain below which each port has a host: `<port>-<box>.<domain>`. */
  domain: string;
  /** Returns the port rules of the surface that claims a request by host or headers; they replace the gateway's own. */
  claimOf: (c: Context<Env>) => PortClaim | undefined;
  /** Returns the id of the box of a target. */
  idOf: Directory['idOf'];
}

/** The route name in logs and metrics. */
export const portRoute = '/v1/boxes/{box}/ports/{port}/{path}';

/** Forwards an admitted request to a server in a box of its tenant, whose id is in the target, and returns the response: streamed both ways. */
export const createForwarding =
  ({ ports, openSockets }: { ports: Ports; openSockets: OpenSockets }) =>
  async (c: Context<Env>, target: Target): Promise<Response> => {
    const { incoming, outgoing, upgrade } = c.env ?? {};
    if (!incoming || !outgoing) throw new Error('ports are served from a socket only');
    if (upgrade) openSockets.expectRoom(c);
    const left = new AbortController();
    const request = toRequest(incoming, target, c.get('requestId'), upgrade !== undefined, left.signal);
    if (upgrade) {
      // The exchange has a deadline of its own.
      incoming.socket.setTimeout(silenceMs);
      incoming.socket.once('close', () => left.abort());
    } else {
      // When the response ends for any reason, the exchange with the server is aborted.
      outgoing.once('close', () => left.abort());
    }
    const response = await ports.send({ tenant: c.get('tenant'), box: target.box }, target.port, request);
    const headers = responseHeaders(response.head, target, incoming.headers.host ?? '', c.get('requestId'));
    if (upgrade && response.upgraded) {
      openSockets.keep(c, accept(upgrade.take(), response.upgraded, headers));
      // This response is discarded: `accept` has completed the handshake.
      return c.body(null);
    }
    writeHead(outgoing as ServerResponse, response, headers, incoming.complete);
    // It may be a stream without an end.
    openSockets.watch(c);
    pipeline(response.head, outgoing).catch((err: unknown) =>
      c.get('log').info({ err }, 'the response of a port was interrupted'),
    );
    return RESPONSE_ALREADY_SENT;
  };

export type Forwarding = ReturnType<typeof createForwarding>;

/**
 * Serves requests for ports: any method, any path. This middleware precedes everything that reads the path, because the path belongs to
 * the server.
 */
export const servePorts = ({ forward, access, domain, claimOf, idOf }: PortProxyOptions): MiddlewareHandler<Env> => {
  const own: readonly TargetReader[] = [byHost(domain), byPath];
  return async (c, next) => {
    const { incoming, outgoing, upgrade } = c.env ?? {};
    const claim = claimOf(c);
    const requested = incoming && readTarget(incoming, claim?.readers ?? own);
    if (!requested || !outgoing) return await next();
    c.set('route', portRoute);
    const { target, ticket } = claim ? { target: requested, ticket: undefined } : splitTicket(requested);
    if (requested.isUnslashed && isPageRequest(incoming))
      return c.redirect(`${requested.prefix}${requested.path}`, 308);
    const way = claim ? await claim.admit(c) : await access.admit(c, incoming, target, ticket);
    const box = await idOf(c.get('tenant'), target.box);
    noteBox(c, box);
    const isPage = !upgrade && (incoming.method === 'GET' || incoming.method === 'HEAD');
    if (way === 'ticket' && isPage) return await access.open(c, incoming, { ...target, box });
    return await forward(c, { ...target, box });
  };
};

/** Whether a browser requests a page. Its relative links resolve from the last slash, so the URL of the port has to end with one. */
const isPageRequest = ({ headers, method }: IncomingMessage): boolean =>
  (method === 'GET' || method === 'HEAD') && headers.accept?.includes('text/html') === true;

const toRequest = (
  incoming: IncomingMessage,
  target: Target,
  requestId: string,
  isWebSocket: boolean,
  left: AbortSignal,
): PortRequest => {
  const { headers, method = 'GET' } = incoming;
  const hasBody = headers['transfer-encoding'] !== undefined || headers['content-length'] !== undefined;
  return {
    method,
    path: target.path,
    headers: requestHeaders(incoming, target, requestId),
    ...(hasBody && !isWebSocket && { body: incoming }),
    isWebSocket,
    leave: left,
  };
};

/** Completes the client's handshake with the server's response, then connects the two sockets. */
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

const writeHead = (outgoing: ServerResponse, { head }: PortResponse, headers: string[], isComplete: boolean): void => {
  try {
    const coding = head.headers['transfer-encoding'];
    if (coding !== undefined && coding.trim().toLowerCase() !== 'chunked') throw new Error(`coded as ${coding}`);
    // The rest of the request body must not be read as the next request.
    const connection = isComplete ? [] : ['Connection', 'close'];
    outgoing.writeHead(head.statusCode ?? 0, head.statusMessage ?? '', [...headers, ...connection]);
    // Sends the head now: the first byte of a stream may come much later. `flushHeaders` would encode Latin-1 values as UTF-8.
    outgoing.write(Buffer.alloc(0));
  } catch (cause) {
    head.destroy();
    throw new CodeBoxError('bad_gateway', 'The server in this box sent a response that cannot be forwarded.', {
      cause,
    });
  }
};
