import { Resolver } from 'node:dns/promises';
import { isIP, type LookupFunction } from 'node:net';
import { Readable } from 'node:stream';
import { Agent, buildConnector, type Dispatcher, request } from 'undici';
import { createPatience } from '../waiting/patience.ts';
import { createReach } from './reach.ts';

/** Why a request to a host that a tenant has named got no response. The message is for the tenant. */
export class OutboundError extends Error {}

export interface OutboundRequest {
  url: string;
  method: 'POST' | 'PUT' | 'DELETE';
  headers: Record<string, string>;
  body: string | Uint8Array | Readable | null;
  signal: AbortSignal;
  /** How much of the response is read. */
  maxBytes: number;
  /** Ends the request when for so long nothing of it was sent and nothing of the response arrived. Without it, the response has to begin within 60 s. */
  idleMs?: number;
}

export interface OutboundResponse {
  status: number;
  headers: Record<string, string | string[] | undefined>;
  /** The beginning of the body. */
  text: string;
  /** Whether the body broke off. */
  isBroken: boolean;
}

export interface OutboundOptions {
  resolve?: Resolve;
  /** Connections to one origin at once, which all tenants share; further requests wait. Null for any number. */
  connections?: number | null;
}

type Resolve = (hostname: string) => Promise<string[]>;

const connectMs = 10_000;
/** Pieces of a request, by which it is seen that it goes on. */
const pieceBytes = 65_536;

/** Resolves names without the threads that Node shares with files: a slow name server holds up nothing else. */
const resolveByDns: Resolve = async (hostname) => {
  const resolver = new Resolver({ timeout: 2000, tries: 2 });
  const found = await Promise.allSettled([resolver.resolve4(hostname), resolver.resolve6(hostname)]);
  return found.flatMap((result) => (result.status === 'fulfilled' ? result.value : []));
};

/**
 * Sends requests to hosts that tenants name. The address that is connected to is checked, whatever a name resolved to before; redirects
 * are not followed, and no more than a bounded part of a response is read.
 */
export const createOutbound = (
  allowed: readonly string[],
  { resolve = resolveByDns, connections = 8 }: OutboundOptions = {},
) => {
  const reach = createReach(allowed);

  const lookupFor =
    (protocol: string): LookupFunction =>
    (hostname, { all }, callback) => {
      void resolve(hostname).then(
        (addresses) => {
          const [first, ...others] = addresses
            .filter((address) => reach.permits(address, protocol))
            .map((address) => ({ address, family: isIP(address) }));
          if (!first) {
            const error = addresses.length === 0 ? unknownHost() : refused();
            callback(error, '', 0);
          } else if (all) callback(null, [first, ...others]);
          else callback(null, first.address, first.family);
        },
        () => callback(unknownHost(), '', 0),
      );
    };

  const connectorFor = (protocol: string) => buildConnector({ timeout: connectMs, lookup: lookupFor(protocol) });
  const connectors = { 'http:': connectorFor('http:'), 'https:': connectorFor('https:') };
  const connect: buildConnector.connector = (options, callback) => {
    const { protocol } = options;
    const host = options.hostname.replace(/^\[(.*)\]$/, '$1');
    if (protocol !== 'http:' && protocol !== 'https:') return callback(refused(), null);
    // An address is connected to without a lookup.
    if (isIP(host) !== 0 && !reach.permits(host, protocol)) return callback(refused(), null);
    return connectors[protocol](options, callback);
  };
  const agent = new Agent({ connect, connections, keepAliveTimeout: 10_000, headersTimeout: 60_000 });

  return {
    /** Returns what is wrong with a URL that can never be reached; undefined for others. */
    faultOf(url: string): string | undefined {
      const { protocol, hostname } = new URL(url);
      const host = hostname.replace(/^\[(.*)\]$/, '$1');
      const isAllowed = isIP(host) !== 0 ? reach.permits(host, protocol) : protocol === 'https:' || allowed.length > 0;
      if (isAllowed) return undefined;
      return 'must be an https URL of a host on the internet, or in a network that the operator allows';
    },

    /** Sends a request. Throws `OutboundError` without a response. */
    async send({ url, maxBytes, idleMs, ...options }: OutboundRequest): Promise<OutboundResponse> {
      const patience = idleMs === undefined ? undefined : createPatience(idleMs, () => silent(idleMs));
      patience?.wait();
      try {
        const watched = patience && {
          body: options.body && inPieces(options.body, patience.wait),
          signal: AbortSignal.any([options.signal, patience.signal]),
          headersTimeout: 0,
          bodyTimeout: 0,
        };
        let response: Dispatcher.ResponseData;
        try {
          response = await request(url, { ...options, ...watched, dispatcher: agent });
        } catch (cause) {
          throw asOutboundError(cause);
        }
        const { statusCode: status, headers, body } = response;
        patience?.wait();
        return { status, headers, ...(await readSome(body, maxBytes, patience?.wait)) };
      } finally {
        patience?.rest();
      }
    },

    close: () => agent.destroy(),
  };
};

export type Outbound = ReturnType<typeof createOutbound>;

const refused = () => new OutboundError('The address is not one that may be reached.');
const unknownHost = () => new OutboundError('The name of the host is unknown.');

const asOutboundError = (error: unknown): OutboundError => {
  if (error instanceof OutboundError) return error;
  if (error instanceof Error && error.cause instanceof OutboundError) return error.cause;
  const { code, name } = error as { code?: string; name?: string };
  if (name === 'TimeoutError') return new OutboundError('There was no response in time.', { cause: error });
  return new OutboundError(`The connection failed${code ? ` (${code})` : ''}.`, { cause: error });
};

const silent = (ms: number) => new OutboundError(`Nothing was sent or received for ${ms / 1000} s.`);

function* slices(bytes: Uint8Array): Generator<Uint8Array> {
  for (let at = 0; at < bytes.length; at += pieceBytes) yield bytes.subarray(at, at + pieceBytes);
}

/** Passes the body of a request on; each piece of a long one is taken when the connection has room for it. */
const inPieces = (body: string | Uint8Array | Readable, onPiece: () => void): string | Uint8Array | Readable => {
  if (typeof body === 'string' || (body instanceof Uint8Array && body.length <= pieceBytes)) return body;
  async function* pieces(): AsyncGenerator<Uint8Array> {
    for await (const piece of body instanceof Uint8Array ? slices(body) : (body as AsyncIterable<Buffer>)) {
      onPiece();
      yield piece;
    }
  }
  // An error that comes after its reader has left would end the process.
  return Readable.from(pieces(), { objectMode: false }).on('error', () => {});
};

/** Reads the beginning of a body; one that is too long or breaks off is cut. */
const readSome = async (
  body: Readable,
  maxBytes: number,
  onChunk = () => {},
): Promise<Pick<OutboundResponse, 'text' | 'isBroken'>> => {
  const chunks: Buffer[] = [];
  let bytes = 0;
  let isBroken = false;
  try {
    for await (const chunk of body as AsyncIterable<Buffer>) {
      onChunk();
      chunks.push(chunk.subarray(0, maxBytes - bytes));
      bytes += chunk.length;
      if (bytes >= maxBytes) break;
    }
  } catch {
    // Some callers need only the status, which has arrived.
    isBroken = true;
  }
  return { text: Buffer.concat(chunks).toString(), isBroken };
};
