import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import {
  type Box,
  type Client,
  CodeBoxError,
  createClient,
  type Execution,
  type ExecutionEvent,
  executionEventSchema,
} from '#contract';
import gatewayFlags from '../../scripts/node-flags.json' with { type: 'json' };
import { makeKey } from '../../services/gateway/http/admission/auth.ts';
import { openStore } from '../../services/gateway/store/store.ts';
import { addressOf } from '../../services/postgres/address.ts';
import { newId } from '../../services/postgres/id.ts';
import { freePort } from '../free-port.ts';
import { placeDatabase } from '../prepared-database.ts';

const project = resolve(import.meta.dirname, '../..');
const readyDeadlineMs = 120_000;

/** The drivers that the set-up could prepare, that of production first: suites run on each where boxes decide the answer. */
export const drivers = (process.env.CODEBOX_TEST_DRIVERS ?? 'docker,local').split(',').filter((name) => name !== '');

/** The quickest of them, for what is the same whoever makes the boxes. */
export const anyDriver = drivers.slice(-1);

/** The first of them, for what is to hold in production and too long to be shown twice. */
export const mainDriver = drivers.slice(0, 1);

/** For boxes whose kernels are not what is tested: with so little memory they prepare none, which takes half of the CPU time of a box. */
export const lean = { limits: { memoryMb: 320 } };

export interface RunningGateway {
  url: string;
  key: string;
  dataDir: string;
  pid: () => number;
  /** The typed client, with the key. */
  client: Client;
  /** `fetch` below the gateway's URL, with the key. */
  call: (path: string, init?: RequestInit) => Promise<Response>;
  /** POSTs JSON and answers JSON. */
  post: <T = Record<string, unknown>>(
    path: string,
    body: unknown,
    headers?: Record<string, string>,
  ) => Promise<{ status: number; body: T; headers: Headers }>;
  get: <T = Record<string, unknown>>(path: string) => Promise<{ status: number; body: T }>;
  run: (box: string, code: string, more?: Record<string, unknown>) => Promise<Execution>;
  createBox: (body?: Record<string, unknown>) => Promise<Box>;
  /** A further tenant; answers its key. */
  addTenant: () => Promise<string>;
  /** Everything printed so far. */
  output: () => string;
  kill: (signal: NodeJS.Signals) => Promise<void>;
  /** Starts it again on the same data, with these settings changed. */
  restart: (env?: Record<string, string>) => Promise<void>;
  /** Ends it with its boxes and its database. */
  dispose: () => Promise<void>;
}

/**
 * Starts gateways at the same moment, as `npm start` would, on one empty data folder with one database. Disposing the first one
 * ends the others, their boxes and the database.
 */
export const startGateways = async (
  driver: string,
  count: number,
  env: Record<string, string> = {},
): Promise<RunningGateway[]> => {
  const dataDir = await mkdtemp(join(tmpdir(), 'codebox-test-'));
  const [first, ...others] = await Promise.all(Array.from({ length: count }, () => serve(driver, env, dataDir)));
  if (first === undefined) throw new Error('no gateway was asked for');
  const dispose = async () => {
    for (const other of others) await other.kill('SIGTERM');
    await first.dispose();
  };
  return [{ ...first, dispose }, ...others];
};

/**
 * Starts a gateway of its own, as `npm start` would, on a data folder with an empty database (or the folder that `env` names) and
 * a free port. It keeps nothing warm and refuses at once what it has no room for, unless `env` asks for that.
 */
export const startGateway = async (driver: string, env: Record<string, string> = {}): Promise<RunningGateway> => {
  if (env.CODEBOX_DATA_DIR) return serve(driver, env, env.CODEBOX_DATA_DIR);
  const dataDir = await mkdtemp(join(tmpdir(), 'codebox-test-'));
  if (!env.DATABASE_URL) await placeDatabase(dataDir);
  return serve(driver, env, dataDir);
};

const serve = async (driver: string, env: Record<string, string>, dataDir: string): Promise<RunningGateway> => {
  const port = await freePort();
  const url = `http://127.0.0.1:${port}`;
  let child: ChildProcess;
  let output = '';
  let key = '';
  const settings: Record<string, string> = { CODEBOX_WARM_BOXES: '0', CODEBOX_QUEUE_SECONDS: '0', ...env };

  const start = async () => {
    child = spawn(process.execPath, [...gatewayFlags, join(project, 'services/gateway/main.ts')], {
      cwd: project,
      stdio: ['ignore', 'pipe', 'pipe'],
      env: {
        ...process.env,
        CODEBOX_DATA_DIR: dataDir,
        CODEBOX_PORT: String(port),
        CODEBOX_DRIVER: driver,
        CODEBOX_LOG_LEVEL: 'warn',
        ...settings,
      },
    });
    const note = (chunk: Buffer) => {
      output = (output + chunk.toString()).slice(-100_000);
    };
    child.stdout?.on('data', note);
    child.stderr?.on('data', note);
    await waitUntilReady();
    key = (await readFile(join(dataDir, 'dev-key'), 'utf8')).trim();
  };

  const waitUntilReady = async () => {
    const deadline = performance.now() + readyDeadlineMs;
    for (;;) {
      const ready = await fetch(`${url}/readyz`).then(
        (response) => response.ok,
        () => false,
      );
      if (ready) return;
      if (child.exitCode !== null || performance.now() > deadline)
        throw new Error(`The gateway did not start:\n${output}`);
      await sleep(50);
    }
  };

  const kill = async (signal: NodeJS.Signals) => {
    if (child.exitCode !== null || child.signalCode !== null) return;
    const ended = once(child, 'exit');
    child.kill(signal);
    await ended;
  };

  const call = (path: string, init: RequestInit = {}) => {
    const headers = new Headers(init.headers);
    if (!headers.has('authorization')) headers.set('authorization', `Bearer ${key}`);
    return fetch(`${url}${path}`, { ...init, headers });
  };
  const post: RunningGateway['post'] = async (path, body, headers = {}) => {
    const response = await call(path, { method: 'POST', body: JSON.stringify(body), headers });
    const text = await response.text();
    return { status: response.status, body: (text ? JSON.parse(text) : undefined) as never, headers: response.headers };
  };
  const get: RunningGateway['get'] = async (path) => {
    const response = await call(path);
    return { status: response.status, body: (await response.json()) as never };
  };
  const told = (cause: Error): never => {
    throw new Error(`${cause.message}\n${output.slice(-2000)}`, { cause });
  };

  await start();
  const client = createClient({ url, key });
  return {
    url,
    get key() {
      return key;
    },
    dataDir,
    client,
    pid: () => child.pid ?? 0,
    call,
    post,
    get,
    run: (box, code, more = {}) => client.executions.run(box, { code, ...more }, { idempotencyKey: false }).catch(told),
    createBox: (body = {}) => client.boxes.create(body, { idempotencyKey: false }).catch(told),
    async addTenant() {
      const store = await openStore(await databaseUrl(dataDir), () => {});
      const { key, id, hash } = makeKey();
      const tenantId = newId('ten');
      await store.keys.addTenant(tenantId, 'another');
      await store.keys.add({ id, tenantId, hash, name: 'test' });
      await store.close();
      return key;
    },
    output: () => output,
    kill,
    restart(env = {}) {
      Object.assign(settings, env);
      return start();
    },
    async dispose() {
      // A gateway that starts with no pools ends what others have kept warm before it serves.
      if (settings.CODEBOX_WARM_BOXES !== '0' || settings.CODEBOX_TEMPLATES) {
        await kill('SIGTERM');
        settings.CODEBOX_WARM_BOXES = '0';
        delete settings.CODEBOX_TEMPLATES;
      }
      if (child.exitCode !== null || child.signalCode !== null) await start();
      for await (const box of client.boxes.list()) await client.boxes.delete(box.id);
      await kill('SIGTERM');
      if (existsSync(dataDir)) await rm(dataDir, { recursive: true, force: true });
    },
  };
};

/** Where the embedded database of a data folder listens. */
export const databaseUrl = async (dataDir: string): Promise<string> => (await addressOf(join(dataDir, 'postgres'))).url;

/** All items of a list or a stream. */
export const collect = async <T>(items: AsyncIterable<T>): Promise<T[]> => {
  const all: T[] = [];
  for await (const item of items) all.push(item);
  return all;
};

/** The error by which a call of the client is refused. */
export const refusal = async (call: Promise<unknown>): Promise<CodeBoxError> => {
  const error = await call.then(
    () => undefined,
    (reason: unknown) => reason,
  );
  if (error instanceof CodeBoxError) return error;
  throw new Error(`it was not refused with a CodeBoxError but gave ${error}`);
};

/** The events of an NDJSON body, each checked against the contract, until it closes. */
export async function* readEvents(response: Response): AsyncGenerator<ExecutionEvent> {
  let pending = '';
  const decoder = new TextDecoder();
  for await (const chunk of response.body ?? []) {
    pending += decoder.decode(chunk as Uint8Array, { stream: true });
    const lines = pending.split('\n');
    pending = lines.pop() ?? '';
    for (const line of lines) {
      if (line === '') continue;
      const event = JSON.parse(line);
      if (event.type === 'closing') return;
      yield executionEventSchema.parse(event);
    }
  }
}

/** The text of one stream among events or outputs. */
export const streamOf = (
  events: readonly { type: string; text?: unknown }[] | null,
  type: 'stdout' | 'stderr',
): string => (events ?? []).map((event) => (event.type === type ? String(event.text) : '')).join('');

/** Waits until `check` answers something, for at most `deadlineMs`. */
export const eventually = async <T>(check: () => Promise<T | undefined | false>, deadlineMs = 60_000): Promise<T> => {
  const deadline = performance.now() + deadlineMs;
  for (;;) {
    const found = await check();
    if (found) return found;
    if (performance.now() > deadline) throw new Error('it did not come to pass in time');
    await sleep(50);
  }
};

/** Resident memory of a process now and at most so far, in bytes. */
export const memoryOf = async (pid: number): Promise<{ now: number; peak: number }> => {
  const status = await readFile(`/proc/${pid}/status`, 'utf8');
  const kibibytes = (name: string) => Number(new RegExp(`${name}:\\s+(\\d+)`).exec(status)?.[1] ?? 0) * 1024;
  return { now: kibibytes('VmRSS'), peak: kibibytes('VmHWM') };
};

/** CPU time that a process has used so far, in milliseconds, to one hundredth of a second. */
export const cpuMsOf = async (pid: number): Promise<number> => {
  const stat = await readFile(`/proc/${pid}/stat`, 'utf8');
  // The name of the program, which stands in parentheses, may hold spaces.
  const [user = 0, system = 0] = stat.slice(stat.lastIndexOf(')')).split(' ').slice(12, 14).map(Number);
  return (user + system) * 10;
};
