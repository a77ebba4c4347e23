import type { IncomingMessage } from 'node:http';
import { CodeBoxError, portSchema } from '#contract';

/** Which server of which box a request is for. */
export interface Target {
  box: string;
  port: number;
  /** Path and query as the server gets them, byte for byte. */
  path: string;
  /** Where the server's `/` is, without the last slash: empty when it has a host of its own. */
  prefix: string;
  /** Whether the address ended at the prefix, without the slash that `path` begins with. */
  isUnslashed: boolean;
}

const authority = /^https?:\/\/[^/?#]*/i;
const portsPath = /^(\/v1\/boxes\/([A-Za-z0-9_-]{1,64})\/ports\/([^/?#]+))(.*)$/s;
const hostLabel = /^(\d{1,5})-(box-[a-z2-7]+)$/;

/**
 * Reads the target from the raw request, since the URL parser would resolve what belongs to the server: `..`, `%2e`, `//`.
 * Undefined for a request that is for something else. Throws `invalid_request` for what is no port.
 */
export type TargetReader = (incoming: IncomingMessage) => Target | undefined;

/** What the first reader makes of a request that knows it. */
export const readTarget = (incoming: IncomingMessage, readers: readonly TargetReader[]): Target | undefined => {
  for (const read of readers) {
    const target = read(incoming);
    if (target) return target;
  }
  return undefined;
};

/** `<port>-<box>.<domain>`, with all paths of that host. */
export const byHost =
  (domain: string): TargetReader =>
  (incoming) => {
    const host = readHost(incoming.headers.host ?? '', domain);
    return host && { ...host, path: pathOf(incoming), prefix: '', isUnslashed: false };
  };

/** `/v1/boxes/{box}/ports/{port}/…`. */
export const byPath: TargetReader = (incoming) => {
  const [, prefix, box, port, rest = ''] = portsPath.exec(urlOf(incoming)) ?? [];
  if (prefix === undefined || box === undefined || port === undefined) return undefined;
  return { box, port: readPort(port), path: rooted(rest), prefix, isUnslashed: !rest.startsWith('/') };
};

/** Path and query of a request, byte for byte. */
const pathOf = (incoming: IncomingMessage): string => rooted(urlOf(incoming));

const urlOf = ({ url = '' }: IncomingMessage): string => url.replace(authority, '');

/** Whether a request has the host of a port, and so all of its paths are that port's. */
export const hasPortHost = (incoming: IncomingMessage, domain: string): boolean =>
  hostLabel.test(labelOf(incoming.headers.host ?? '', domain));

/** `<port>-<box>.<domain>`; host names know no case. */
const readHost = (host: string, domain: string): { box: string; port: number } | undefined => {
  const [, port, box] = hostLabel.exec(labelOf(host, domain)) ?? [];
  if (port === undefined || box === undefined) return undefined;
  return { box, port: readPort(port) };
};

/** What stands before the domain; '' for any other host. */
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
