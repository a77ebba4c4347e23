import { createDaemon, httpStatus } from '../services/gateway/drivers/docker/daemon/daemon.ts';
import { ensureBoxImage, hasImage } from '../services/gateway/drivers/docker/daemon/image.ts';
import { readBuildContext } from '../services/gateway/drivers/host/build-context.ts';
import { extraCertificates } from './certificates.ts';
import { projectFolder } from './project.ts';

/** The environment variables that the set-up reads; they have the names that the gateway uses. */
export type Environment = Record<string, string | undefined>;

interface Where {
  host?: string;
  log: (line: string) => void;
  signal: AbortSignal;
}

/** The build context of the box image of this checkout, and what its build is given. */
const boxContext = async (env: Environment) => {
  const index = env.CODEBOX_PIP_INDEX_URL;
  const buildArgs: Record<string, string> = index ? { PIP_INDEX_URL: index } : {};
  const certificates = await extraCertificates(env.CODEBOX_CA_BUNDLE);
  return { buildArgs, context: await readBuildContext(`${projectFolder}/images/box`, { certificates, buildArgs }) };
};

/** Ensures that the daemon has the box image of this checkout and resolves with its reference. */
export const prepareDockerImage = async (env: Environment, { host, log, signal }: Where): Promise<string> => {
  const { context, buildArgs } = await boxContext(env);
  return ensureBoxImage(createDaemon(host), context, { buildArgs, log, signal });
};

const environments = 'codebox-environment';
const fullImages = 'codebox-box-full';

/** The build context of the full image, which is built on the box image of this checkout. */
const fullContext = async (env: Environment) => {
  const { context, buildArgs: given } = await boxContext(env);
  const images = { BOX_IMAGE: `codebox-box:${context.hash}`, ENVIRONMENT_IMAGE: `${environments}:${context.hash}` };
  const buildArgs = { ...given, ...images };
  return { buildArgs, context: await readBuildContext(`${projectFolder}/images/box-full`, { buildArgs }) };
};

/** Ensures that the daemon has the full image of this checkout and resolves with its reference. */
export const prepareFullImage = async (env: Environment, { host, log, signal }: Where): Promise<string> => {
  const daemon = createDaemon(host);
  const box = await boxContext(env);
  const { context, buildArgs } = await fullContext(env);
  const reference = `${fullImages}:${context.hash}`;
  if (await hasImage(daemon, reference, signal)) return reference;
  await prepareDockerImage(env, { ...(host !== undefined && { host }), log, signal });
  const stage = { repository: environments, target: 'environment', buildArgs: box.buildArgs, log, signal };
  await ensureBoxImage(daemon, box.context, stage);
  return ensureBoxImage(daemon, context, { repository: fullImages, buildArgs, log, signal });
};

/** The reference of the full image: of this checkout if the daemon has it, else whether there is one of another version. */
export const findFullImage = async (
  env: Environment,
  signal: AbortSignal,
): Promise<string | 'outdated' | undefined> => {
  const daemon = createDaemon();
  const { context } = await fullContext(env);
  const reference = `${fullImages}:${context.hash}`;
  if (await hasImage(daemon, reference, signal)) return reference;
  return (await hasImage(daemon, `${fullImages}:latest`, signal)) ? 'outdated' : undefined;
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
