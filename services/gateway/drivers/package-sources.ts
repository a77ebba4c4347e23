import type { NetworkPolicy } from './driver.ts';

/** The package sources of all boxes of a deployment. The default of each is the public registry. */
export interface PackageSources {
  pipIndexUrl?: string | undefined;
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
  ...(sources.npmRegistry !== undefined && { npm_config_registry: sources.npmRegistry }),
  ...(sources.wheelsDir !== undefined && { PIP_FIND_LINKS: wheelsTarget, UV_FIND_LINKS: wheelsTarget }),
  ...(network === 'none' && { PIP_NO_INDEX: '1', UV_NO_INDEX: '1' }),
});
