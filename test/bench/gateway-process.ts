import { spawn } from 'node:child_process';
import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises';
import { join } from 'node:path';
import gatewayFlags from '../../scripts/node-flags.json' with { type: 'json' };
import { projectFolder } from '../../scripts/project.ts';
import { freePort } from '../free-port.ts';
import { type BenchClient, createBenchClient } from './client.ts';
import { until } from './deadline.ts';
import { inWaves } from './in-waves.ts';
import { owned } from './owned.ts';
import { endChild } from './program.ts';

export interface GatewayOptions {
  driver: 'docker' | 'local' | 'kubernetes';
  /** The runtime of the Docker driver. */
  runtime?: string;
  /** The reference of the box image, for the Docker driver. */
  image?: string;
  /** The number of boxes in the warm pool (default: 0). */
  warm?: number;
  /** Further environment variables. */
  settings?: Readonly<Record<string, string>>;
  /** Flags for Node, such as `--cpu-prof`. */
  nodeFlags?: readonly string[];
}

export interface GatewayProcess extends AsyncDisposable {
  driver: GatewayOptions['driver'];
  pid: number;
  url: string;
  key: string;
  dataDir: string;
  client: BenchClient;
}

const startMs = 90_000;
const clearMs = 120_000;
const deletesAtOnce = 4;

/**
 * Starts a gateway with an empty data folder on a free port. Disposing it cuts its requests, deletes its boxes, ends it and its database
 * and removes the folder. Throws, and leaves nothing behind, if it is not ready within 90 s.
 */
export const startGateway = async (options: GatewayOptions): Promise<GatewayProcess> => {
  await using stack = new AsyncDisposableStack();
  // The path is short, because it is a prefix of the paths of Unix sockets.
  const dataDir = await mkdtemp('/tmp/codebox-bench-');
  stack.defer(() => rm(dataDir, { recursive: true, force: true, maxRetries: 5 }));
  stack.defer(() => endDatabase(dataDir));
  stack.defer(() => endInstances(options, dataDir));
  const { pid, url } = stack.use(await serve(options, dataDir));
  const key = await readKey(dataDir);
  const client = createBenchClient(url, key);
  stack.defer(() => deleteBoxes(client));
  // A row that throws leaves requests behind, which could still create boxes after the others are deleted.
  stack.defer(client.cut);
  return { driver: options.driver, pid, url, key, dataDir, client, ...owned(stack) };
};

/**
 * Ends the instances that outlive their gateway, with their disks and mounts: warm ones, and boxes whose creation was under way. A gateway
 * without a pool ends the former, and lists the latter.
 */
const endInstances = async (options: GatewayOptions, dataDir: string): Promise<void> => {
  if (options.driver === 'kubernetes' ? !options.warm : (await instanceIds(dataDir)).length === 0) return;
  await using stack = new AsyncDisposableStack();
  const withoutPool = { ...options, warm: 0, settings: { ...options.settings, CODEBOX_TEMPLATES: '' } };
  const { url } = stack.use(await serve(withoutPool, dataDir));
  const client = createBenchClient(url, await readKey(dataDir));
  stack.defer(client.cut);
  const isClear = async (): Promise<true | undefined> => {
    await deleteBoxes(client);
    return (await instanceIds(dataDir)).length === 0 ? true : undefined;
  };
  await until('the end of all instances', isClear, { withinMs: clearMs, everyMs: 200 });
};

const readKey = async (dataDir: string): Promise<string> => (await readFile(join(dataDir, 'dev-key'), 'utf8')).trim();

/** The ids of the instances on this machine, warm ones included: each has a folder for its socket. */
export const instanceIds = async (dataDir: string): Promise<string[]> =>
  (await readdir(join(dataDir, 'run')).catch(() => [])).filter((name) => !name.startsWith('.'));

const serve = async (options: GatewayOptions, dataDir: string) => {
  await using stack = new AsyncDisposableStack();
  const port = await freePort();
  const main = join(projectFolder, 'services/gateway/main.ts');
  const child = spawn(process.execPath, [...gatewayFlags, ...(options.nodeFlags ?? []), main], {
    // In a process group of its own, so that Ctrl-C reaches only this process, which deletes the boxes before it ends the gateway.
    detached: true,
    stdio: ['ignore', 'ignore', 'pipe'],
    env: environment(options, dataDir, port),
  });
  let stderr = '';
  child.stderr.on('data', (chunk: Buffer) => {
    stderr = (stderr + chunk.toString()).slice(-4000);
  });
  stack.defer(() => endChild(child, 20_000));
  const url = `http://127.0.0.1:${port}`;
  await until('the gateway', () => isServing(url, () => checkAlive(child.exitCode, stderr)), { withinMs: startMs });
  if (child.pid === undefined) throw new Error('the gateway has no process id');
  const things = stack.move();
  return { pid: child.pid, url, [Symbol.asyncDispose]: () => things.disposeAsync() };
};

const environment = (options: GatewayOptions, dataDir: string, port: number): NodeJS.ProcessEnv => {
  // Settings of the user's own gateway must not affect the measurements.
  const inherited = Object.entries(process.env).filter(([name]) => !/^(CODEBOX_|DATABASE_URL$)/.test(name));
  return {
    ...Object.fromEntries(inherited),
    CODEBOX_DATA_DIR: dataDir,
    CODEBOX_PORT: String(port),
    CODEBOX_HOST: '127.0.0.1',
    CODEBOX_DRIVER: options.driver,
    CODEBOX_LOG_LEVEL: 'silent',
    CODEBOX_WARM_BOXES: String(options.warm ?? 0),
    CODEBOX_QUEUE_SECONDS: '0',
    ...(options.runtime && { CODEBOX_RUNTIME: options.runtime }),
    ...(options.image && { CODEBOX_BOX_IMAGE: options.image }),
    ...options.settings,
  };
};

const checkAlive = (exitCode: number | null, stderr: string): void => {
  if (exitCode !== null) throw new Error(`the gateway ended with ${exitCode}: ${stderr}`);
};

const isServing = async (url: string, check: () => void): Promise<true | undefined> => {
  check();
  try {
    const response = await fetch(`${url}/readyz`, { signal: AbortSignal.timeout(5000) });
    await response.body?.cancel();
    return response.ok ? true : undefined;
  } catch {
    // It does not listen yet.
    return undefined;
  }
};

/** Deletes all boxes that the client's key may list. */
export const deleteBoxes = async (client: BenchClient): Promise<void> => {
  const boxes: string[] = [];
  for await (const { id } of client.boxes.list()) boxes.push(id);
  await inWaves(boxes.length, deletesAtOnce, async (n) => client.boxes.delete(boxes[n] ?? ''));
};

/** Ends the database, which outlives a killed gateway. */
const endDatabase = async (dataDir: string): Promise<void> => {
  const file = join(dataDir, 'postgres/data/postmaster.pid');
  await until(
    'the end of the database',
    async () => {
      const pid = await readFile(file, 'utf8').then(
        (text) => Number(text.split('\n', 1)[0]),
        () => 0,
      );
      if (!(pid > 1)) return true;
      try {
        process.kill(pid, 'SIGINT');
      } catch {
        // It has ended without removing its file.
        return true;
      }
      return undefined;
    },
    { withinMs: 15_000, everyMs: 100 },
  );
};
