import { createDaemon, httpStatus } from '../services/gateway/drivers/docker/daemon/daemon.ts';
import { ensureBoxImage } from '../services/gateway/drivers/docker/daemon/image.ts';
import { readBuildContext } from '../services/gateway/drivers/host/build-context.ts';
import { extraCertificates } from './certificates.ts';
import { projectFolder } from './project.ts';

/** The environment variables that the set-up reads; they have the names that the gateway uses. */
export type Environment = Record<string, string | undefined>;

/** Ensures that the daemon has the box image of this checkout and resolves with its reference. */
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

/** Why it failed, in the words of the daemon if it refused a request: the error has them only as its cause, because callers must not see them. */
export const reasonOf = (error: Error): string => {
  const refusal = error.cause instanceof Error && httpStatus(error.cause) !== undefined ? error.cause : error;
  return refusal.message.trim();
};

/** Whether a Docker daemon responds at `host`, or else at the address in the environment. */
export const isDockerThere = (host?: string): Promise<boolean> =>
  createDaemon(host)
    .call(AbortSignal.timeout(5000), (docker) => docker.ping())
    .then(
      () => true,
      () => false,
    );
