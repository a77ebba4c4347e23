import { isIPv4 } from 'node:net';
import type { NetworkPolicy } from './driver.ts';

/** The package sources of all boxes of a deployment. The default of each is the public registry. */
export interface PackageSources {
  pipIndexUrl?: string | undefined;
  /** Searched beside that registry. */
  pipExtraIndexUrls?: readonly string[] | undefined;
  npmRegistry?: string | undefined;
  /** The absolute path of a host folder with wheels and source distributions; every box has it read-only at `/opt/wheels`. */
  wheelsDir?: string | undefined;
}

/** The path of the wheels folder in a box. */
export const wheelsTarget = '/opt/wheels';

/**
 * Returns the environment variables that configure the installers of a box; without a network pip uses only the wheels. A box that gets
 * another network while it runs changes them itself.
 */
export const packageEnvironment = (sources: PackageSources, network: NetworkPolicy): Record<string, string> => ({
  CODEBOX_NETWORK: network,
  ...(sources.pipIndexUrl !== undefined && {
    PIP_INDEX_URL: sources.pipIndexUrl,
    UV_DEFAULT_INDEX: sources.pipIndexUrl,
  }),
  ...(sources.pipExtraIndexUrls?.length && {
    PIP_EXTRA_INDEX_URL: sources.pipExtraIndexUrls.join(' '),
    UV_INDEX: sources.pipExtraIndexUrls.join(' '),
    // Like pip: the best version of all registries, not the only ones of the first that has the package.
    UV_INDEX_STRATEGY: 'unsafe-best-match',
  }),
  ...(sources.npmRegistry !== undefined && { npm_config_registry: sources.npmRegistry }),
  ...(sources.wheelsDir !== undefined && { PIP_FIND_LINKS: wheelsTarget, UV_FIND_LINKS: wheelsTarget }),
  ...(network === 'none' && { PIP_NO_INDEX: '1', UV_NO_INDEX: '1' }),
});

/** A TCP port of an IPv4 address. */
export interface Endpoint {
  address: string;
  port: number;
}

/** Returns those registries that are configured by an address: boxes with a network may reach them, even if the address is private. */
export const registryEndpoints = (sources: PackageSources): Endpoint[] => {
  const { pipIndexUrl, pipExtraIndexUrls = [], npmRegistry } = sources;
  const urls = [pipIndexUrl, ...pipExtraIndexUrls, npmRegistry].filter((url) => url !== undefined);
  const hosts = new Set(urls.map((url) => `${new URL(url).hostname}:${new URL(url).port || defaultPort(url)}`));
  return [...hosts].flatMap((host) => {
    const [address = '', port] = host.split(':');
    return isIPv4(address) ? [{ address, port: Number(port) }] : [];
  });
};

const defaultPort = (url: string): number => (url.startsWith('https:') ? 443 : 80);
