import type { Daemon } from '../../services/gateway/drivers/docker/daemon.ts';
import { openStore } from '../../services/gateway/store/store.ts';
import { databaseUrl, type RunningGateway } from '../api/harness.ts';
import { takeDaemonCensus } from '../contract/daemon-census.ts';
import { takeHostCensus } from '../contract/host-census.ts';

/** What there is on the host of the boxes of a gateway with a database of its own, sorted, and what a daemon has of them. */
export const takeBoxCensus = async (
  gateway: RunningGateway,
  { docker }: { docker?: Daemon } = {},
): Promise<string[]> => {
  const deployment = await deploymentOf(gateway);
  const containers = () => (docker ? takeDaemonCensus(docker, deployment) : Promise.resolve([]));
  return (await takeHostCensus(gateway.dataDir, deployment, containers)).sort();
};

/** The name by which the boxes of a gateway are known. */
export const deploymentOf = async (gateway: RunningGateway): Promise<string> => {
  const store = await openStore(await databaseUrl(gateway.dataDir), () => {});
  try {
    return (await store.keys.deployment('none')).id;
  } finally {
    await store.close();
  }
};
