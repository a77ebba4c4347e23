import { ConfigurationError } from '../../configuration-error.ts';
import { idOf } from '../../postgres/id.ts';
import type { Config } from '../config.ts';
import type { Driver } from '../drivers/driver.ts';
import { readCertificates } from '../drivers/host/host-certificates.ts';

export interface DriverEvents {
  /** The backend of the driver stops or starts to respond. */
  onBackend?: (state: 'open' | 'closed', cause?: unknown) => void;
  /** A box server was forked, or could not be, for this reason. */
  onFork?: (failure?: unknown) => void;
}

/** Creates the configured driver. `auto` chooses Docker where a daemon responds, else local processes. */
export const chooseDriver = async (
  config: Config,
  deployment: string,
  { onBackend, onFork }: DriverEvents = {},
): Promise<Driver> => {
  const { dataDir, site, runtime, gpus, packages, volumesMb } = config;
  // Each site on a shared host lists and sweeps only its own instances.
  const labelOf = (kind: string) =>
    site === undefined || site === kind ? deployment : idOf('dep', `${deployment}/${site}`);
  const named = site === undefined ? {} : { site };
  if (config.driver === 'kubernetes') {
    const filesOfHost = [
      ['CODEBOX_WHEELS_DIR', packages.wheelsDir, 'CODEBOX_KUBERNETES_WHEELS'],
      ['CODEBOX_CA_BUNDLE', config.caBundle, 'CODEBOX_KUBERNETES_CA_BUNDLE'],
    ];
    for (const [name, value, instead] of filesOfHost)
      if (value !== undefined)
        throw new ConfigurationError(`${name}: the kubernetes driver takes no files of this host; use ${instead}`);
    if (Object.keys(gpus).length > 0)
      throw new ConfigurationError('CODEBOX_GPUS: the kubernetes driver takes no devices of this host');
    const { createKubernetesDriver } = await import('../drivers/kubernetes/driver.ts');
    return await createKubernetesDriver({
      deployment: labelOf('kubernetes'),
      ...named,
      settings: config.kubernetes,
      packages,
      ...(onBackend && { onBackend }),
    });
  }
  const parent = {
    ...(config.sharedParent !== undefined && { sharedParent: config.sharedParent }),
    ...(onFork && { onFork }),
  };
  const certificates = config.caBundle === undefined ? [] : await readCertificates(config.caBundle);
  // Each driver is loaded when it is chosen: the libraries of the others are most of what a gateway would load.
  const local = async () => {
    const { createLocalDriver } = await import('../drivers/local/driver.ts');
    return await createLocalDriver({
      dataDir,
      deployment: labelOf('local'),
      ...named,
      packages,
      volumesMb,
      certificates,
      ...parent,
    });
  };
  if (config.driver === 'local') return await local();
  const { createDockerDriver } = await import('../drivers/docker/driver.ts');
  try {
    return await createDockerDriver({
      dataDir,
      deployment: labelOf('docker'),
      ...named,
      runtime,
      gpus,
      packages,
      volumesMb,
      certificates,
      ...parent,
      ...(onBackend && { onBackend }),
    });
  } catch (noDocker) {
    if (config.driver === 'docker') throw noDocker;
    return await local().catch((noLocal: unknown) => {
      throw new AggregateError([noDocker, noLocal], 'Neither the docker nor the local driver works here.');
    });
  }
};
