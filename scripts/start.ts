import { mkdir } from 'node:fs/promises';
import { resolve } from 'node:path';
import { readConfig as readAgentConfig } from '../services/agent/config.ts';
import { readConfig } from '../services/gateway/config.ts';
import { buildPageAside, runAgent } from './agent-process.ts';
import { baseImage } from './base-image.ts';
import { isDockerThere, prepareDockerImage } from './docker-image.ts';
import { prepareLocalSandbox } from './local-sandbox.ts';

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

/** Has the agent beside the gateway, with the page as its sources are now; without one when it cannot be built. */
const startAgent = (): void => {
  const { host, port, dataDir } = readConfig(env);
  const gatewayUrl = `http://${host === '0.0.0.0' || host === '::' ? '127.0.0.1' : host}:${port}`;
  const page = env.CODEBOX_AGENT_PAGE ? Promise.resolve(env.CODEBOX_AGENT_PAGE) : buildPageAside(dataDir, log);
  const agent = runAgent(async () => {
    const folder = await page;
    return { ...env, CODEBOX_URL: env.CODEBOX_URL || gatewayUrl, ...(folder && { CODEBOX_AGENT_PAGE: folder }) };
  }, log);
  for (const name of ['SIGTERM', 'SIGINT'] as const) process.once(name, agent.stop);
};

try {
  // What is wrong with the settings is told before minutes of set-up.
  readConfig(env);
  if (env.CODEBOX_AGENT !== '0') readAgentConfig(env);
  await mkdir(resolve(env.CODEBOX_DATA_DIR || '.codebox'), { recursive: true });
  Object.assign(process.env, await prepare());
} catch (error) {
  process.stderr.write(`${error instanceof Error ? error.message : error}\n`);
  process.exit(1);
}
if (env.CODEBOX_AGENT !== '0') startAgent();
await import('../services/gateway/main.ts');
