import { parseArgs } from 'node:util';
import { createDaemon } from '../services/gateway/drivers/docker/daemon/daemon.ts';
import { findPython, isPrepared } from '../services/gateway/drivers/local/environment/environment.ts';
import { keepReport, runBench, showReport } from '../test/bench/bench.ts';
import { endAll, endOnSignal } from '../test/bench/owned.ts';
import { baseImage } from './base-image.ts';
import { findFullImage, prepareDockerImage } from './docker-image.ts';
import { prepareLocalSandbox } from './local-sandbox.ts';

const log = (line: string): void => void process.stderr.write(`${line}\n`);
const signal = AbortSignal.timeout(60 * 60_000);

/** The runtimes of the Docker daemon, or undefined if no daemon responds. */
const dockerRuntimes = async (): Promise<string[] | undefined> => {
  try {
    const info = await createDaemon().call(signal, (docker) => docker.info(), 5000);
    return Object.keys((info as { Runtimes?: Record<string, unknown> }).Runtimes ?? {});
  } catch {
    // Without Docker, boxes are processes of this host.
    return undefined;
  }
};

const isLocalPrepared = async (): Promise<boolean> => {
  const python = await findPython();
  return python !== undefined && (await isPrepared(python));
};

/** Prepares the box image and resolves with its reference, or logs why that failed and resolves with undefined. */
const boxImage = async (): Promise<string | undefined> => {
  if (process.env.CODEBOX_BOX_IMAGE) return process.env.CODEBOX_BOX_IMAGE;
  try {
    await baseImage({ log, signal });
    return await prepareDockerImage(process.env, { log, signal });
  } catch (error) {
    log(
      `The box image cannot be prepared, so the benchmark runs without Docker. ${error instanceof Error ? error.message : error}`,
    );
    return undefined;
  }
};

/** The full image of this checkout, which takes too long to build for a benchmark; undefined where the daemon does not have it. */
const fullImage = async (): Promise<string | undefined> => {
  // It is made from the box image of this checkout.
  if (process.env.CODEBOX_BOX_IMAGE) return undefined;
  const found = await findFullImage(process.env, signal).catch(() => undefined);
  if (found !== undefined && found !== 'outdated') return found;
  log('The full image is not there, so it is not measured. `npm run full-image` builds it.');
  return undefined;
};

const prepare = async () => {
  const runtimes = await dockerRuntimes();
  const image = runtimes && (await boxImage());
  // Installing takes minutes and 1 GB, so with Docker present, local boxes are measured only where they are already installed.
  const hasLocal = image === undefined || (await isLocalPrepared());
  if (hasLocal) await prepareLocalSandbox(process.env, { log, signal });
  return {
    image,
    fullImage: image && (await fullImage()),
    runtimes: (runtimes ?? []).filter((name) => name.startsWith('runsc')),
    hasLocal,
  };
};

endOnSignal(async () => {
  log('Stopping the processes of the benchmark.');
  await endAll();
});

// `npm run bench` prepares, measures, prints tables, and stores them as test/bench/results/latest. With `-- --only ID,…`, ids of rows or
// sets of them, it measures only these and stores nothing, unless `--keep NAME` names the results.
const { values } = parseArgs({ options: { only: { type: 'string', default: '' }, keep: { type: 'string' } } });
const only = values.only.split(',').filter((id) => id !== '');
const report = await runBench({ ...(await prepare()), only, log });
const name = values.keep ?? (only.length === 0 ? 'latest' : undefined);
process.stdout.write(name === undefined ? showReport(report) : await keepReport(report, name));
if (report.failed.length > 0) process.exitCode = 1;
