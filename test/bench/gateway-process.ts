import { spawn } from 'node:child_process';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
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
  driver: 'docker' | 'local';
  /** Of the Docker driver. */
  runtime?: string;
  /** The reference of the box image, for the Docker driver. */
  image?: string;
  /** How many boxes it keeps warm: none unless said. */
  warm?: number;
  /** Further settings, by the names of their variables. */
  settings?: Readonly<Record<string, string>>;
  /** Flags for Node, such as `--cpu-prof`. */
  nodeFlags?: readonly string[];
}

export interface GatewayProcess extends AsyncDisposable {
  pid: number;
  url: string;
  key: string;
  dataDir: string;
  client: BenchClient;
}

const startMs = 90_000;
const deletesAtOnce = 4;

/**
 * A gateway of its own with an empty data folder and a free port. Disposing it deletes its boxes, ends it and its database and
 * removes the folder. Throws, with nothing left behind, when it does not serve within 90 s.
 */
export const startGateway = async (options: GatewayOptions): Promise<GatewayProcess> => {
  await using stack = new AsyncDisposableStack();
  // Short, because sockets of boxes lie below it.
  const dataDir = await mkdtemp('/tmp/codebox-bench-');
  stack.defer(() => rm(dataDir, { recursive: true, force: true, maxRetries: 5 }));
  stack.defer(() => endDatabase(dataDir));
  if (options.warm) stack.defer(() => drain(options, dataDir));
  const { pid, url } = stack.use(await serve(options, dataDir));
  const key = (await readFile(join(dataDir, 'dev-key'), 'utf8')).trim();
  const client = createBenchClient(url, key);
  stack.defer(client.close);
  stack.defer(() => deleteBoxes(client));
  return { pid, url, key, dataDir, client, ...owned(stack) };
};

/** What is warm outlives its gateway; one that keeps nothing warm ends it before it serves. */
const drain = async (options: GatewayOptions, dataDir: string): Promise<void> => {
  await using _ = await serve({ ...options, warm: 0 }, dataDir);
};

const serve = async (options: GatewayOptions, dataDir: string) => {
  await using stack = new AsyncDisposableStack();
  const port = await freePort();
  const main = join(projectFolder, 'services/gateway/main.ts');
  const child = spawn(process.execPath, [...gatewayFlags, ...(options.nodeFlags ?? []), main], {
    // A group of its own: Ctrl-C reaches this process alone, which then deletes the boxes before it ends the gateway.
    detached: true,
    stdio: ['ignore', 'ignore', 'pipe'],
    env: environment(options, dataDir, port),
  });
  let complaint = '';
  child.stderr.on('data', (chunk: Buffer) => {
    complaint = (complaint + chunk.toString()).slice(-4000);
  });
  stack.defer(() => endChild(child, 20_000));
  const url = `http://127.0.0.1:${port}`;
  await until('the gateway', () => isServing(url, () => checkAlive(child.exitCode, complaint)), { withinMs: startMs });
  if (child.pid === undefined) throw new Error('the gateway has no process id');
  const things = stack.move();
  return { pid: child.pid, url, [Symbol.asyncDispose]: () => things.disposeAsync() };
};

const environment = (options: GatewayOptions, dataDir: string, port: number): NodeJS.ProcessEnv => {
  // Settings of the caller's own gateway must not change what is measured.
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

const checkAlive = (exitCode: number | null, complaint: string): void => {
  if (exitCode !== null) throw new Error(`the gateway ended with ${exitCode}: ${complaint}`);
};

const isServing = async (url: string, check: () => void): Promise<true | undefined> => {
  check();
  try {
    const answer = await fetch(`${url}/readyz`, { signal: AbortSignal.timeout(5000) });
    await answer.body?.cancel();
    return answer.ok ? true : undefined;
  } catch {
    // Not listening yet.
    return undefined;
  }
};

/** Ends all boxes that a client may see. */
export const deleteBoxes = async (client: BenchClient): Promise<void> => {
  const boxes: string[] = [];
  for await (const { id } of client.boxes.list()) boxes.push(id);
  await inWaves(boxes.length, deletesAtOnce, async (n) => client.boxes.delete(boxes[n] ?? ''));
};

/** The database outlives a gateway that was killed. */
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
