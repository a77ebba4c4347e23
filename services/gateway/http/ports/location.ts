import type { Target } from './target.ts';

const withHost = /^(?:https?:)?\/\/([^/?#]*)(.*)$/is;
const loopback = /^(?:localhost|127\.0\.0\.1|0\.0\.0\.0|\[::1?\]):(\d+)$/i;

/**
 * Rewrites a redirect of a server below `target.prefix`: a server that is unaware of the prefix redirects to its own root, outside it.
 * `host` is the host of the request. Locations that have the prefix already, relative ones and other hosts are returned unchanged.
 */
export const confineLocation = (location: string, target: Target, host: string): string => {
  const path = pathOfOwn(location, target, host);
  if (target.prefix === '' || path === undefined) return location;
  const isInside = path === target.prefix || /^[/?#]/.test(path.slice(target.prefix.length));
  return path.startsWith(target.prefix) && isInside ? location : target.prefix + path;
};

/** Returns path, query and fragment of a URL of this server; undefined for another server or a relative reference. */
const pathOfOwn = (location: string, target: Target, host: string): string | undefined => {
  const [, named, rest = ''] = withHost.exec(location) ?? [];
  if (named === undefined) return location.startsWith('/') ? location : undefined;
  const isOwn = named.toLowerCase() === host.toLowerCase() || loopback.exec(named)?.[1] === String(target.port);
  if (!isOwn) return undefined;
  return rest.startsWith('/') ? rest : `/${rest}`;
};
