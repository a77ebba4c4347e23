import type { NetworkPolicy } from './driver.ts';

/** Where boxes get packages from, the same for every box of a deployment. What is missing is the public registry. */
export interface PackageSources {
  pipIndexUrl?: string | undefined;
  npmRegistry?: string | undefined;
  /** A folder of the host with wheels and source distributions, absolute; every box has it read-only at `/opt/wheels`. */
  wheelsDir?: string | undefined;
}

/** Where a box has the folder of wheels. */
export const wheelsTarget = '/opt/wheels';

/**
 * Variables that tell the installers of a box about their sources; without a network pip looks only at the wheels. A box that
 * is given another network while it runs changes them itself.
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
