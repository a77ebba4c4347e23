import { createDaemon } from '../services/gateway/drivers/docker/daemon.ts';
import { ensureBoxImage } from '../services/gateway/drivers/docker/image.ts';
import { readBuildContext } from '../services/gateway/drivers/host/build-context.ts';
import { extraCertificates } from './certificates.ts';
import { projectFolder } from './project.ts';

/** What the set-up reads of the environment; the same names that the gateway knows. */
export type Environment = Record<string, string | undefined>;

/** Makes sure that the daemon has the box image of this checkout and gives its reference. */
export const prepareDockerImage = async (
  env: Environment,
  { host, log, signal }: { host?: string; log: (line: string) => void; signal: AbortSignal },
): Promise<string> => {
  const index = env.CODEBOX_PIP_INDEX_URL;
  const buildArgs: Record<string, string> = index ? { PIP_INDEX_URL: index } : {};
  const certificates = await extraCertificates(env.CODEBOX_CA_BUNDLE);
  const context = await readBuildContext(`${projectFolder}/images/box`, { certificates, buildArgs });
  return ensureBoxImage(createDaemon(host), context, { buildArgs, log, signal });
};

/** Whether a Docker daemon answers, at `host` or where the environment says. */
export const isDockerThere = (host?: string): Promise<boolean> =>
  createDaemon(host)
    .call(AbortSignal.timeout(5000), (docker) => docker.ping())
    .then(
      () => true,
      () => false,
    );
