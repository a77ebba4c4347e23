import type { Daemon } from '../../services/gateway/drivers/docker/daemon/daemon.ts';
import { openStore } from '../../services/gateway/store/store.ts';
import { databaseUrl, type RunningGateway } from '../api/harness.ts';
import { takeDaemonCensus } from '../contract/daemon-census.ts';
import { takeHostCensus } from '../contract/host-census.ts';

/** Resolves with everything that the host, and the daemon if given, has of the boxes of a gateway with its own database, sorted. */
export const takeBoxCensus = async (
  gateway: RunningGateway,
  { docker }: { docker?: Daemon } = {},
): Promise<string[]> => {
  const deployment = await deploymentOf(gateway);
  const containers = () => (docker ? takeDaemonCensus(docker, deployment) : Promise.resolve([]));
  return (await takeHostCensus(gateway.dataDir, deployment, containers)).sort();
};

/** Resolves with the deployment id that marks the boxes of a gateway. */
export const deploymentOf = async (gateway: RunningGateway): Promise<string> => {
  const store = await openStore(await databaseUrl(gateway.dataDir), () => {});
  try {
    return (await store.keys.deployment('none')).id;
  } finally {
    await store.close();
  }
};
