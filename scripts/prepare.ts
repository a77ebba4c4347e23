import { mkdir } from 'node:fs/promises';
import { readConfig as readAgentConfig } from '../services/agent/config.ts';
import { giveUpIfWrong } from '../services/configuration-error.ts';
import { readConfig } from '../services/gateway/config.ts';
import { baseImage } from './base-image.ts';
import { isDockerThere, prepareDockerImage } from './docker-image.ts';
import { prepareLocalSandbox } from './local-sandbox.ts';

/** What `npm start` needs to know before it starts its parts. */
export interface Prepared {
  /** Variables that tell the gateway what its boxes are made of. */
  env: Record<string, string>;
  dataDir: string;
  /** Where the gateway will be. */
  gatewayUrl: string;
  /** What a part may take to stop. */
  stopMs: number;
}

const log = (line: string) => process.stdout.write(`${line}\n`);
const signal = new AbortController().signal;
const env = process.env;

/** Makes the image and gives the variables that tell the gateway about it. */
const prepareDocker = async (): Promise<Record<string, string>> => {
  if (env.CODEBOX_BOX_IMAGE) return { CODEBOX_DRIVER: 'docker' };
  await baseImage({ log, signal });
  return { CODEBOX_DRIVER: 'docker', CODEBOX_BOX_IMAGE: await prepareDockerImage(env, { log, signal }) };
};

const prepareLocal = async (): Promise<Record<string, string>> => {
  await prepareLocalSandbox(env, { log, signal });
  return { CODEBOX_DRIVER: 'local' };
};

/** What is asked for, or else Docker where a daemon answers and an image can be made, else local sandboxes. */
const prepare = async (): Promise<Record<string, string>> => {
  const asked = env.CODEBOX_DRIVER || 'auto';
  if (asked === 'local') return prepareLocal();
  if (asked === 'docker') return prepareDocker();
  if (!(await isDockerThere())) {
    log('No Docker daemon answers here, so boxes will be local sandboxes.');
    return prepareLocal();
  }
  try {
    return await prepareDocker();
  } catch (error) {
    log(
      `The box image cannot be had, so boxes will be local sandboxes. ${error instanceof Error ? error.message : error}`,
    );
    return prepareLocal();
  }
};

// What is wrong with the settings is told before minutes of set-up.
const readSettings = () => {
  const config = readConfig(env);
  const agent = env.CODEBOX_AGENT === '0' ? undefined : readAgentConfig(env);
  return { ...config, stopMs: Math.max(config.stopMs, agent?.stopMs ?? 0) };
};

/** Does what has to be done once, in a process of its own: the parts that it needs are large. Tells its parent what to start. */
const prepareAll = async (): Promise<Prepared> => {
  const { host, port, dataDir, stopMs } = readSettings();
  await mkdir(dataDir, { recursive: true });
  const gatewayUrl = `http://${host === '0.0.0.0' || host === '::' ? '127.0.0.1' : host}:${port}`;
  return { env: await prepare(), dataDir, gatewayUrl, stopMs };
};

// Nobody is left to start what is prepared.
process.once('disconnect', () => process.exit(1));
try {
  const prepared = await prepareAll().catch(giveUpIfWrong);
  process.send?.(prepared, () => process.disconnect());
} catch (error) {
  process.stderr.write(`${error instanceof Error ? error.message : error}\n`);
  process.exit(1);
}
