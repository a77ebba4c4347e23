import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { cp, mkdtemp, readFile, rename, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import { testFolder } from '../../scripts/project.ts';
import { freePort } from '../free-port.ts';

const run = promisify(execFile);
const source = resolve(import.meta.dirname, 'servers');
const cache = join(testFolder, 'stores');
const installMs = 500_000;
const readyMs = 60_000;

const makeProgramsFolder = async (): Promise<string> => {
  const hash = createHash('sha256').update(await readFile(join(source, 'package-lock.json')));
  const folder = join(cache, hash.digest('hex').slice(0, 16));
  if (!existsSync(folder)) {
    const making = `${folder}.${process.pid}`;
    await cp(source, making, { recursive: true });
    await run('npm', ['ci', '--ignore-scripts', '--no-audit', '--no-fund'], { cwd: making, timeout: installMs });
    // Another test may have installed them meanwhile.
    await rename(making, folder).catch(() => rm(making, { recursive: true, force: true }));
  }
  return join(folder, 'node_modules/.bin');
};

let installed: Promise<string> | undefined;

/** Installs the emulators of cloud stores, which only these tests need, once per lock file. Resolves with the folder of their programs. */
const install = (): Promise<string> => {
  installed ??= makeProgramsFolder();
  return installed;
};

/** A server on an empty folder and a free port. */
export interface StoreServer extends AsyncDisposable {
  port: number;
}

const start = async (
  program: string,
  argsFor: (port: number, folder: string) => string[],
  scheme = 'http',
): Promise<StoreServer> => {
  const programs = await install();
  const port = await freePort();
  const folder = await mkdtemp(join(tmpdir(), 'codebox-blobs-'));
  const child = spawn(process.execPath, [join(programs, program), ...argsFor(port, folder)], { stdio: 'ignore' });
  const stop = async () => {
    await ended(child);
    await rm(folder, { recursive: true, force: true });
  };
  const deadline = performance.now() + readyMs;
  // Any response will do, as requests without a signature are refused.
  while (
    !(await fetch(`${scheme}://127.0.0.1:${port}/`).then(
      () => true,
      () => false,
    ))
  ) {
    if (child.exitCode !== null || performance.now() > deadline) {
      await stop();
      throw new Error(`${program} did not start`);
    }
    await sleep(50);
  }
  return { port, [Symbol.asyncDispose]: stop };
};

/** Starts an S3 emulator with the bucket `codebox`; key and secret are `S3RVER`. */
export const startS3 = () =>
  start('s3rver', (port, folder) => [
    '--address',
    '127.0.0.1',
    '--port',
    String(port),
    '--directory',
    folder,
    '--silent',
    '--configure-bucket',
    'codebox',
  ]);

const azureArguments = (port: number, folder: string) => [
  '--blobHost',
  '127.0.0.1',
  '--blobPort',
  String(port),
  '--location',
  folder,
  '--silent',
  '--skipApiVersionCheck',
  '--disableTelemetry',
];

/** Starts an Azure Blob Storage emulator without a container, with the account of every emulator. */
export const startAzure = () => start('azurite-blob', azureArguments);

/** Starts the Azure emulator over TLS, where it also accepts tokens; this process has to trust its certificate. */
export const startAzureWithTokens = ({ key, certificate }: { key: string; certificate: string }) =>
  start(
    'azurite-blob',
    (port, folder) => [...azureArguments(port, folder), '--oauth', 'basic', '--key', key, '--cert', certificate],
    'https',
  );

/** The well-known account of the emulator. */
export const azureConnectionString = (port: number, scheme = 'http'): string =>
  [
    `DefaultEndpointsProtocol=${scheme}`,
    'AccountName=devstoreaccount1',
    'AccountKey=Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==',
    `BlobEndpoint=${scheme}://127.0.0.1:${port}/devstoreaccount1`,
  ].join(';');

const ended = async (child: ChildProcess): Promise<void> => {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const gone = new Promise((done) => child.once('exit', done));
  child.kill('SIGKILL');
  await gone;
};
