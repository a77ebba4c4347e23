import { parseArgs } from 'node:util';
import { createDaemon } from '../services/gateway/drivers/docker/daemon.ts';
import { findPython, isPrepared } from '../services/gateway/drivers/local/environment.ts';
import { keepReport, runBench, showReport } from '../test/bench/bench.ts';
import { endAll } from '../test/bench/owned.ts';
import { baseImage } from './base-image.ts';
import { prepareDockerImage } from './docker-image.ts';
import { prepareLocalSandbox } from './local-sandbox.ts';

const log = (line: string): void => void process.stderr.write(`${line}\n`);
const signal = AbortSignal.timeout(60 * 60_000);

/** The runtimes that the Docker daemon knows, or undefined where no daemon answers. */
const dockerRuntimes = async (): Promise<string[] | undefined> => {
  try {
    const info = await createDaemon().call(signal, (docker) => docker.info(), 5000);
    return Object.keys((info as { Runtimes?: Record<string, unknown> }).Runtimes ?? {});
  } catch {
    // No Docker here: then boxes are processes of this host.
    return undefined;
  }
};

const isLocalPrepared = async (): Promise<boolean> => {
  const python = await findPython();
  return python !== undefined && (await isPrepared(python));
};

/** The reference of the box image; undefined, and said so, where it cannot be had. */
const boxImage = async (): Promise<string | undefined> => {
  if (process.env.CODEBOX_BOX_IMAGE) return process.env.CODEBOX_BOX_IMAGE;
  try {
    await baseImage({ log, signal });
    return await prepareDockerImage(process.env, { log, signal });
  } catch (error) {
    log(`The box image cannot be had, so Docker is left out. ${error instanceof Error ? error.message : error}`);
    return undefined;
  }
};

const prepare = async () => {
  const runtimes = await dockerRuntimes();
  const image = runtimes && (await boxImage());
  // Installing takes minutes and 1 GB, so beside Docker local boxes are measured only where somebody uses them.
  const hasLocal = image === undefined || (await isLocalPrepared());
  if (hasLocal) await prepareLocalSandbox(process.env, { log, signal });
  return { image, runtimes: (runtimes ?? []).filter((name) => name.startsWith('runsc')), hasLocal };
};

let isStopping = false;
for (const name of ['SIGINT', 'SIGTERM'] as const) {
  // A terminal sends Ctrl-C to the whole group, and what started this passes it on, so it comes twice.
  process.on(name, () => {
    if (isStopping) return;
    isStopping = true;
    log('ending what was started …');
    void endAll().finally(() => process.exit(1));
  });
}

/** `npm run bench [-- --only id,id]`: set-up, measurements, tables; a part of the rows leaves the kept results alone. */
const { values } = parseArgs({ options: { only: { type: 'string', default: '' } } });
const only = values.only.split(',').filter((id) => id !== '');
const report = await runBench({ ...(await prepare()), only, log });
process.stdout.write(only.length === 0 ? await keepReport(report) : showReport(report));
