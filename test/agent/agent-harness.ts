import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import type { AnswerEvent, Chat } from '#contract';
import { anyDriver, databaseUrl, type RunningGateway, startGateway } from '../api/harness.ts';
import { freePort } from '../free-port.ts';
import { startService } from '../prepared-services.ts';

const readyDeadlineMs = 120_000;

export interface RunningAgent {
  url: string;
  gateway: RunningGateway;
  pid: () => number;
  /** `fetch` below the agent's URL, with the gateway's key unless another is given; `key: ''` sends none. */
  call: (path: string, init?: RequestInit & { key?: string }) => Promise<Response>;
  /** Sends JSON and resolves with the parsed response. */
  send: <T = Record<string, unknown>>(
    method: string,
    path: string,
    body?: unknown,
    headers?: Record<string, string>,
  ) => Promise<{ status: number; body: T; headers: Headers }>;
  createChat: (body?: Record<string, unknown>) => Promise<Chat>;
  /** Everything printed so far. */
  output: () => string;
  kill: (signal: NodeJS.Signals) => Promise<void>;
  /** Sends a statement to its database, and resolves with the rows. */
  query: (sql: string, values?: unknown[]) => Promise<Record<string, unknown>[]>;
  /** Kills the agent with SIGKILL and expires the leases of its answers at once, instead of seconds later. */
  die: () => Promise<void>;
  restart: (env?: Record<string, string>) => Promise<void>;
  /** Stops the agent with its gateway, and removes the boxes and the database. */
  dispose: () => Promise<void>;
}

/** Starts another agent on the data of a gateway, as its own process. */
export const serveAgent = async (gateway: RunningGateway, env: Record<string, string> = {}): Promise<RunningAgent> => {
  const port = await freePort();
  const url = `http://127.0.0.1:${port}`;
  const settings = { ...env };
  let child: ChildProcess;
  let output = '';

  const start = async () => {
    child = startService('agent', {
      CODEBOX_URL: gateway.url,
      CODEBOX_DATA_DIR: gateway.dataDir,
      CODEBOX_AGENT_PORT: String(port),
      CODEBOX_STOP_SECONDS: '2',
      ...settings,
    });
    const note = (chunk: Buffer) => {
      output = (output + chunk.toString()).slice(-1_000_000);
    };
    child.stdout?.on('data', note);
    child.stderr?.on('data', note);
    const deadline = performance.now() + readyDeadlineMs;
    for (;;) {
      const isReady = await fetch(`${url}/readyz`).then(
        (response) => response.ok,
        () => false,
      );
      if (isReady) return;
      if (child.exitCode !== null || performance.now() > deadline)
        throw new Error(`The agent did not start:\n${output}`);
      await sleep(100);
    }
  };
  const kill = async (signal: NodeJS.Signals) => {
    if (child.exitCode !== null || child.signalCode !== null) return;
    const ended = once(child, 'exit');
    child.kill(signal);
    await ended;
  };

  const call: RunningAgent['call'] = (path, { key = gateway.key, ...init } = {}) => {
    const headers = new Headers(init.headers);
    if (key !== '') headers.set('authorization', `Bearer ${key}`);
    return fetch(`${url}${path}`, { ...init, headers });
  };
  const send: RunningAgent['send'] = async (method, path, body, headers = {}) => {
    const json = body === undefined ? {} : { body: JSON.stringify(body) };
    const response = await call(path, { method, headers, ...json });
    const text = await response.text();
    return { status: response.status, body: (text ? JSON.parse(text) : undefined) as never, headers: response.headers };
  };

  const query: RunningAgent['query'] = async (sql, values) => {
    const database = new pg.Client({ connectionString: await databaseUrl(gateway.dataDir) });
    await database.connect();
    const { rows } = await database.query(sql, values);
    await database.end();
    return rows;
  };

  await start();
  return {
    url,
    gateway,
    pid: () => child.pid ?? 0,
    call,
    send,
    createChat: async (body = {}) => (await send<Chat>('POST', '/v1/chats', body)).body,
    output: () => output,
    kill,
    query,
    async die() {
      await kill('SIGKILL');
      await query("update agent.messages set lease_until = now() where status = 'running'");
    },
    restart(more = {}) {
      Object.assign(settings, more);
      return start();
    },
    dispose: () => kill('SIGTERM'),
  };
};

/** Starts an agent with its own gateway and an empty database, and no model but those that `env` names. */
export const startAgent = async (
  env: Record<string, string> = {},
  gatewayEnv: Record<string, string> = {},
): Promise<RunningAgent> => {
  const gateway = await startGateway(anyDriver[0] ?? 'local', gatewayEnv);
  try {
    const agent = await serveAgent(gateway, env);
    const dispose = async () => {
      await agent.dispose();
      await gateway.dispose();
    };
    return { ...agent, dispose };
  } catch (error) {
    await gateway.dispose();
    throw error;
  }
};

/** Yields the events of an NDJSON body as they arrive. */
export async function* readAnswer(response: Response): AsyncGenerator<AnswerEvent> {
  let pending = '';
  const decoder = new TextDecoder();
  for await (const chunk of response.body ?? []) {
    pending += decoder.decode(chunk as Uint8Array, { stream: true });
    const lines = pending.split('\n');
    pending = lines.pop() ?? '';
    for (const line of lines) if (line !== '') yield JSON.parse(line);
  }
}
