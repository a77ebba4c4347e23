import { idOf } from '../../postgres/id.ts';
import type { Config } from '../config.ts';
import { createDockerDriver } from '../drivers/docker/driver.ts';
import type { Driver } from '../drivers/driver.ts';
import { readCertificates } from '../drivers/host/host-certificates.ts';
import { createLocalDriver } from '../drivers/local/driver.ts';

/** The configured driver; `auto` takes Docker where a daemon answers, else local processes. */
export const chooseDriver = async (
  config: Config,
  deployment: string,
  onDaemon?: (state: 'open' | 'closed', cause?: unknown) => void,
): Promise<Driver> => {
  const { dataDir, site, runtime, packages } = config;
  // Sites that share a host each list and sweep their own instances only.
  const labelOf = (kind: string) =>
    site === undefined || site === kind ? deployment : idOf('dep', `${deployment}/${site}`);
  const named = site === undefined ? {} : { site };
  const certificates = config.caBundle === undefined ? [] : await readCertificates(config.caBundle);
  const local = () => createLocalDriver({ dataDir, deployment: labelOf('local'), ...named, packages, certificates });
  if (config.driver === 'local') return await local();
  try {
    return await createDockerDriver({
      dataDir,
      deployment: labelOf('docker'),
      ...named,
      runtime,
      packages,
      certificates,
      ...(onDaemon && { onDaemon }),
    });
  } catch (noDocker) {
    if (config.driver === 'docker') throw noDocker;
    return await local().catch((noLocal: unknown) => {
      throw new AggregateError([noDocker, noLocal], 'Neither the docker nor the local driver works here.');
    });
  }
};
