import { mkdir } from 'node:fs/promises';
import { readConfig as readAgentConfig } from '../services/agent/config.ts';
import { giveUpIfWrong } from '../services/configuration-error.ts';
import { readConfig } from '../services/gateway/config.ts';
import { baseImage } from './base-image.ts';
import { findFullImage, isDockerThere, prepareDockerImage, reasonOf } from './docker-image.ts';
import { prepareLocalSandbox } from './local-sandbox.ts';

/** The settings with which `npm start` starts the services. */
export interface Prepared {
  /** Environment variables that select the gateway's driver and box image. */
  env: Record<string, string>;
  dataDir: string;
  gatewayUrl: string;
  /** The longest time that a service may take to stop. */
  stopMs: number;
}

const log = (line: string) => process.stdout.write(`${line}\n`);
const signal = new AbortController().signal;
const env = process.env;

/** Builds the image and resolves with the variables that select it. */
const prepareDocker = async (): Promise<Record<string, string>> => {
  if (env.CODEBOX_BOX_IMAGE) return { CODEBOX_DRIVER: 'docker' };
  await baseImage({ log, signal });
  const image = await prepareDockerImage(env, { log, signal });
  return { CODEBOX_DRIVER: 'docker', CODEBOX_BOX_IMAGE: image, ...(await fullImage()) };
};

/** The variable that offers the full image, which `npm run full-image` builds, as a template. */
const fullImage = async (): Promise<Record<string, string>> => {
  if (env.CODEBOX_FULL_IMAGE) return {};
  const found = await findFullImage(env, signal);
  if (found === undefined) return {};
  if (found !== 'outdated') return { CODEBOX_FULL_IMAGE: found };
  log('The full image is of another version, so there is no template full: npm run full-image builds it anew.');
  return {};
};

const prepareLocal = async (): Promise<Record<string, string>> => {
  await prepareLocalSandbox(env, { log, signal });
  return { CODEBOX_DRIVER: 'local' };
};

/** Prepares the configured driver; by default Docker if a daemon responds and the image can be built, else local sandboxes. */
const prepare = async (): Promise<Record<string, string>> => {
  const driver = env.CODEBOX_DRIVER || 'auto';
  if (driver === 'local') return prepareLocal();
  if (driver === 'docker') return prepareDocker();
  if (!(await isDockerThere())) {
    log('No Docker daemon responds here, so boxes will be local sandboxes.');
    return prepareLocal();
  }
  try {
    return await prepareDocker();
  } catch (error) {
    log(
      `The box image cannot be prepared, so boxes will be local sandboxes. ${error instanceof Error ? reasonOf(error) : error}`,
    );
    return prepareLocal();
  }
};

// Settings are validated first, so that an error shows before minutes of set-up.
const readSettings = () => {
  const config = readConfig(env);
  const agent = env.CODEBOX_AGENT === '0' ? undefined : readAgentConfig(env);
  return { ...config, stopMs: Math.max(config.stopMs, agent?.stopMs ?? 0) };
};

/** The URL at which a gateway on this machine is reached. */
const urlOf = (host: string, port: number): string => {
  if (host === '0.0.0.0' || host === '::') return `http://127.0.0.1:${port}`;
  return `http://${host.includes(':') ? `[${host}]` : host}:${port}`;
};

/** Does the set-up, in a process of its own because its modules are large. */
const prepareAll = async (): Promise<Prepared> => {
  const { host, port, dataDir, stopMs } = readSettings();
  await mkdir(dataDir, { recursive: true });
  const gatewayUrl = urlOf(host, port);
  return { env: await prepare(), dataDir, gatewayUrl, stopMs };
};

// Without its parent process the set-up has no purpose.
process.once('disconnect', () => process.exit(1));
try {
  const prepared = await prepareAll().catch(giveUpIfWrong);
  process.send?.(prepared, () => process.disconnect());
} catch (error) {
  process.stderr.write(`${error instanceof Error ? error.message : error}\n`);
  process.exit(1);
}
