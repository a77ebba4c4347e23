import type { IncomingMessage } from 'node:http';
import { CodeBoxError, portSchema } from '#contract';
import { decodeSegment } from '../segment.ts';

/** The server inside a box that a request is for. */
export interface Target {
  /** Its id, or `user:name`. */
  box: string;
  port: number;
  /** Path and query for the server, byte for byte. */
  path: string;
  /** The prefix of the server's paths, without the last slash; empty when the server has a host of its own. */
  prefix: string;
  /** Whether the URL ended at the prefix, without the slash that `path` begins with. */
  isUnslashed: boolean;
}

const authority = /^https?:\/\/[^/?#]*/i;
/** An id, or `user:name`, percent-encoded. */
const portsPath =
  /^(\/v1\/boxes\/([A-Za-z0-9_-]{1,64}|[^/?#]{1,2400}(?::|%3[Aa])[\w.-]{1,64})\/ports\/([^/?#]+))(.*)$/s;
const hostLabel = /^(\d{1,5})-(box-[a-z2-7]+)$/;

/**
 * Reads the target from the raw request, since a URL parser would normalise what belongs to the server: `..`, `%2e`, `//`. Returns
 * undefined for a request that is not for a port. Throws `invalid_request` for an invalid port number.
 */
export type TargetReader = (incoming: IncomingMessage) => Target | undefined;

/** Returns the target of the first reader that recognises the request. */
export const readTarget = (incoming: IncomingMessage, readers: readonly TargetReader[]): Target | undefined => {
  for (const read of readers) {
    const target = read(incoming);
    if (target) return target;
  }
  return undefined;
};

/** Recognises `<port>-<box>.<domain>`, with all paths of that host. */
export const byHost =
  (domain: string): TargetReader =>
  (incoming) => {
    const host = readHost(incoming.headers.host ?? '', domain);
    return host && { ...host, path: pathOf(incoming), prefix: '', isUnslashed: false };
  };

/** Recognises `/v1/boxes/{box}/ports/{port}/…`. */
export const byPath: TargetReader = (incoming) => {
  const [, prefix, segment = '', port, rest = ''] = portsPath.exec(urlOf(incoming)) ?? [];
  const box = decodeSegment(segment);
  if (prefix === undefined || box === undefined || port === undefined) return undefined;
  return { box, port: readPort(port), path: rooted(rest), prefix, isUnslashed: !rest.startsWith('/') };
};

/** Returns path and query of a request, byte for byte. */
const pathOf = (incoming: IncomingMessage): string => rooted(urlOf(incoming));

const urlOf = ({ url = '' }: IncomingMessage): string => url.replace(authority, '');

/** Whether the host of a request is that of a port, to which all its paths then belong. */
export const hasPortHost = (incoming: IncomingMessage, domain: string): boolean =>
  hostLabel.test(labelOf(incoming.headers.host ?? '', domain));

/** Parses `<port>-<box>.<domain>`; host names are case-insensitive. */
const readHost = (host: string, domain: string): { box: string; port: number } | undefined => {
  const [, port, box] = hostLabel.exec(labelOf(host, domain)) ?? [];
  if (port === undefined || box === undefined) return undefined;
  return { box, port: readPort(port) };
};

/** Returns the label before the domain; '' for any other host. */
const labelOf = (host: string, domain: string): string => {
  const name = host.toLowerCase().replace(/:\d*$/, '');
  return name.endsWith(`.${domain}`) ? name.slice(0, -domain.length - 1) : '';
};

const readPort = (text: string): number => {
  const parsed = portSchema.safeParse(text);
  if (parsed.success && /^\d+$/.test(text)) return parsed.data;
  const detail = 'must be a port: 1 to 65535';
  throw new CodeBoxError('invalid_request', `The port ${detail}.`, { errors: [{ pointer: '/path/port', detail }] });
};

const rooted = (path: string): string => (path.startsWith('/') ? path : `/${path}`);
