import type { Target } from './target.ts';

const withHost = /^(?:https?:)?\/\/([^/?#]*)(.*)$/is;
const loopback = /^(?:localhost|127\.0\.0\.1|0\.0\.0\.0|\[::1?\]):(\d+)$/i;

/**
 * Where a server redirects to, within the place that it has: a server does not know that its `/` is `target.prefix`, so what
 * leads to its own root would leave it. `host` is the one that it was asked for. A server that minds `X-Forwarded-Prefix`,
 * relative addresses and other hosts stay as they are.
 */
export const confineLocation = (location: string, target: Target, host: string): string => {
  const path = pathOfOwn(location, target, host);
  if (target.prefix === '' || path === undefined) return location;
  const isInside = path === target.prefix || /^[/?#]/.test(path.slice(target.prefix.length));
  return path.startsWith(target.prefix) && isInside ? location : target.prefix + path;
};

/** Path, query and fragment of an address of this server; undefined for one that is not, or that is relative. */
const pathOfOwn = (location: string, target: Target, host: string): string | undefined => {
  const [, named, rest = ''] = withHost.exec(location) ?? [];
  if (named === undefined) return location.startsWith('/') ? location : undefined;
  const isOwn = named.toLowerCase() === host.toLowerCase() || loopback.exec(named)?.[1] === String(target.port);
  if (!isOwn) return undefined;
  return rest.startsWith('/') ? rest : `/${rest}`;
};
