import { existsSync } from 'node:fs';
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
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
import { projectFolder } from '../../scripts/project.ts';
import { makeKey } from '../../services/gateway/http/admission/auth.ts';
import { openStore } from '../../services/gateway/store/store.ts';
import { addressOf } from '../../services/postgres/address.ts';
import { newId } from '../../services/postgres/id.ts';
import { freePort } from '../free-port.ts';
import { placeDatabase } from '../prepared-database.ts';
import { quickFolder } from '../quick-folder.ts';
import { hostService, ownProcess, ownSetting, type RunningService, waitUntilReady } from '../running-services.ts';

/** The drivers that the set-up could prepare, production's first; suites whose outcome depends on the boxes run on each. */
export const drivers = (process.env.CODEBOX_TEST_DRIVERS ?? 'docker,local').split(',').filter((name) => name !== '');

/** The fastest driver, for suites that do not depend on the driver. */
export const anyDriver = drivers.slice(-1);

/** The production driver, for suites that take too long to run twice. */
export const mainDriver = drivers.slice(0, 1);

/** Settings of a gateway with the default template, whose boxes have enough memory to prepare kernels in advance. */
export const usualBoxes = { CODEBOX_TEMPLATES: '' };

export interface RunningGateway {
  url: string;
  key: string;
  dataDir: string;
  /** The typed client, with the key. */
  client: Client;
  /** `fetch` below the gateway's URL, with the key. */
  call: (path: string, init?: RequestInit) => Promise<Response>;
  /** POSTs JSON and resolves with the parsed response. */
  post: <T = Record<string, unknown>>(
    path: string,
    body: unknown,
    headers?: Record<string, string>,
  ) => Promise<{ status: number; body: T; headers: Headers }>;
  get: <T = Record<string, unknown>>(path: string) => Promise<{ status: number; body: T }>;
  run: (box: string, code: string, more?: Record<string, unknown>) => Promise<Execution>;
  createBox: (body?: Record<string, unknown>) => Promise<Box>;
  /** Creates another tenant and resolves with its key. */
  addTenant: () => Promise<string>;
  /** Everything printed since the last start. */
  output: () => string;
  /** Stops the gateway, as SIGTERM does. */
  stop: () => Promise<void>;
  /** Starts the gateway again on the same data, with these settings changed. */
  restart: (env?: Record<string, string>) => Promise<void>;
  /** Stops the gateway and removes its boxes and its database. */
  dispose: () => Promise<void>;
}

/** A gateway in a process of its own, unless it is disposed of: that may start it once more where hosted ones run. */
export interface GatewayProcess extends RunningGateway {
  pid: () => number;
  /** Sends a signal, and waits until the process has ended. */
  kill: (signal: NodeJS.Signals) => Promise<void>;
}

/**
 * Starts gateways at the same moment, each as a process, on one data folder with an empty database (or the folder that `env`
 * names). Disposing the first stops the others too and removes their boxes and the database.
 */
export const startGateways = async (
  driver: string,
  count: number,
  env: Record<string, string> = {},
): Promise<GatewayProcess[]> => {
  const dataDir = await dataFolder(env);
  const [first, ...others] = await Promise.all(Array.from({ length: count }, () => serveProcess(driver, env, dataDir)));
  if (first === undefined) throw new Error('no gateway was requested');
  const dispose = async () => {
    for (const other of others) await other.stop();
    await first.dispose();
  };
  return [{ ...first, dispose }, ...others];
};

/**
 * Starts a gateway on a data folder with an empty database (or the folder that `env` names) and a free port, in the process that all
 * hosted services of a worker share. Unless `env` says otherwise it keeps no warm boxes and has no queue. Its boxes are lean, unless `env`
 * sets templates or `usualBoxes`.
 */
export const startGateway = async (driver: string, env: Record<string, string> = {}): Promise<RunningGateway> =>
  serve(hosted, driver, env, await dataFolder(env));

/**
 * The same as a process of its own, for tests that kill or measure it, or that set what libraries read from the environment. It runs the
 * code of the project, or of a copy below `root`.
 */
export const startGatewayProcess = async (
  driver: string,
  env: Record<string, string> = {},
  root = projectFolder,
): Promise<GatewayProcess> => serveProcess(driver, env, await dataFolder(env), root);

const dataFolder = async (env: Record<string, string>): Promise<string> => {
  if (env.CODEBOX_DATA_DIR) return env.CODEBOX_DATA_DIR;
  const dataDir = await mkdtemp(join(quickFolder, 'codebox-test-'));
  if (!env.DATABASE_URL) await placeDatabase(dataDir);
  return dataDir;
};

/** With so little memory boxes that start servers of their own prepare no kernels, which takes half of their CPU time. */
const writeLeanTemplate = async (dataDir: string, warm = '0'): Promise<string> => {
  await mkdir(dataDir, { recursive: true });
  // One file per start: gateways that share the folder may read it at the same moment.
  const file = join(await mkdtemp(join(dataDir, 'templates-')), 'lean.yaml');
  await writeFile(file, `python: { warm: ${warm}, limits: { memoryMb: 320 } }\n`);
  return file;
};

const serveProcess = async (
  driver: string,
  env: Record<string, string>,
  dataDir: string,
  root = projectFolder,
): Promise<GatewayProcess> => {
  const { launch, ...process } = ownProcess('gateway', root);
  return Object.assign(await serve(launch, driver, env, dataDir, root === projectFolder ? hosted : launch), process);
};

type Launch = (env: Record<string, string>) => Promise<RunningService>;

const hosted: Launch = (env) => hostService('gateway', env);

const serve = async (
  launch: Launch,
  driver: string,
  env: Record<string, string>,
  dataDir: string,
  // A copy of the project cannot be hosted.
  launchToClean = hosted,
): Promise<RunningGateway> => {
  const port = await freePort();
  const url = `http://127.0.0.1:${port}`;
  let service: RunningService;
  let key = '';
  const otherKeys: string[] = [];
  const settings: Record<string, string> = { CODEBOX_WARM_BOXES: '0', CODEBOX_QUEUE_SECONDS: '0', ...env };

  const start = async (by = launch) => {
    const templates = settings.CODEBOX_TEMPLATES ?? (await writeLeanTemplate(dataDir, settings.CODEBOX_WARM_BOXES));
    service = await by({
      CODEBOX_DATA_DIR: dataDir,
      CODEBOX_PORT: String(port),
      CODEBOX_DRIVER: driver,
      CODEBOX_LOG_LEVEL: 'warn',
      // Boxes of Docker cost a third with it, and gateways in other suites do without.
      CODEBOX_SHARED_PARENT: '1',
      ...settings,
      CODEBOX_TEMPLATES: templates,
    });
    await waitUntilReady(service, url);
    key = (await readFile(join(dataDir, 'dev-key'), 'utf8')).trim();
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
  const throwWithOutput = (cause: Error): never => {
    throw new Error(`${cause.message}\n${service.output().slice(-2000)}`, { cause });
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
    call,
    post,
    get,
    run: (box, code, more = {}) =>
      client.executions.run(box, { code, ...more }, { idempotencyKey: false }).catch(throwWithOutput),
    createBox: (body = {}) => client.boxes.create(body, { idempotencyKey: false }).catch(throwWithOutput),
    async addTenant() {
      const store = await openStore(await databaseUrl(dataDir), () => {});
      const { key, id, hash } = makeKey();
      const tenantId = newId('ten');
      await store.keys.addTenant(tenantId, 'another');
      await store.keys.add({ id, tenantId, hash, name: 'test' });
      await store.close();
      otherKeys.push(key);
      return key;
    },
    output: () => service.output(),
    stop: () => service.stop(),
    restart(env = {}) {
      Object.assign(settings, env);
      return start();
    },
    async dispose() {
      // A gateway without pools ends the warm instances of earlier ones when it starts.
      if (settings.CODEBOX_WARM_BOXES !== '0' || settings.CODEBOX_TEMPLATES) {
        await service.stop();
        settings.CODEBOX_WARM_BOXES = '0';
        delete settings.CODEBOX_TEMPLATES;
      }
      if (service.hasEnded()) await start(ownSetting(settings) === undefined ? launchToClean : launch);
      for (const { boxes } of [client, ...otherKeys.map((key) => createClient({ url, key }))])
        for await (const box of boxes.list()) await boxes.delete(box.id);
      await service.stop();
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

/** Resolves with the CodeBoxError that a call rejects with; throws if there is none. */
export const refusal = async (call: Promise<unknown>): Promise<CodeBoxError> => {
  const error = await call.then(
    () => undefined,
    (reason: unknown) => reason,
  );
  if (error instanceof CodeBoxError) return error;
  throw new Error(`the call did not reject with a CodeBoxError but with ${error}`);
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

/** Each look takes CPU time on both sides, so those of a long wait are further apart: by a tenth of the time that it has taken. */
const [shortestPauseMs, longestPauseMs] = [50, 250];

/** Polls until `check` resolves with a truthy value, for at most `deadlineMs`. */
export const eventually = async <T>(check: () => Promise<T | undefined | false>, deadlineMs = 120_000): Promise<T> => {
  const begunMs = performance.now();
  for (;;) {
    const found = await check();
    if (found) return found;
    const waitedMs = performance.now() - begunMs;
    if (waitedMs > deadlineMs) throw new Error('the condition was not met in time');
    await sleep(Math.min(Math.max(waitedMs / 10, shortestPauseMs), longestPauseMs));
  }
};

/** Current and peak resident memory of a process, in bytes. */
export const memoryOf = async (pid: number): Promise<{ now: number; peak: number }> => {
  const status = await readFile(`/proc/${pid}/status`, 'utf8');
  const kibibytes = (name: string) => Number(new RegExp(`${name}:\\s+(\\d+)`).exec(status)?.[1] ?? 0) * 1024;
  return { now: kibibytes('VmRSS'), peak: kibibytes('VmHWM') };
};

/** CPU time that a process has used, in milliseconds, with a resolution of 10 ms. */
export const cpuMsOf = async (pid: number): Promise<number> => {
  const stat = await readFile(`/proc/${pid}/stat`, 'utf8');
  // The program name in parentheses may contain spaces.
  const [user = 0, system = 0] = stat.slice(stat.lastIndexOf(')')).split(' ').slice(12, 14).map(Number);
  return (user + system) * 10;
};
