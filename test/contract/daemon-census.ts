import type { Daemon } from '../../services/gateway/drivers/docker/daemon/daemon.ts';

/** Lists the containers and volumes that a daemon has of a deployment's instances, as `kind name`. Parents serve several gateways. */
export const takeDaemonCensus = async (daemon: Daemon, deployment: string): Promise<string[]> => {
  const signal = AbortSignal.timeout(30_000);
  const filters = JSON.stringify({ label: [`codebox.deployment=${deployment}`] });
  const containers = await daemon.call(signal, (docker) => docker.listContainers({ all: true, filters }));
  const { Volumes: volumes } = await daemon.call(signal, (docker) => docker.listVolumes({ filters }));
  return [
    ...containers.filter(({ Labels }) => !('codebox.parent' in Labels)).map(({ Names }) => `container ${Names[0]}`),
    ...(volumes ?? []).map(({ Name }) => `volume ${Name}`),
  ];
};
