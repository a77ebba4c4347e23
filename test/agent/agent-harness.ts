import pg from 'pg';
import type { AnswerEvent, Chat } from '#contract';
import { anyDriver, databaseUrl, type RunningGateway, startGateway } from '../api/harness.ts';
import { freePort } from '../free-port.ts';
import { hostService, ownProcess, type RunningService, waitUntilReady } from '../running-services.ts';

export interface RunningAgent {
  url: string;
  gateway: RunningGateway;
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
  /** Everything printed since the last start. */
  output: () => string;
  /** Stops the agent, as SIGTERM does. */
  stop: () => Promise<void>;
  /** Sends a statement to its database, and resolves with the rows. */
  query: (sql: string, values?: unknown[]) => Promise<Record<string, unknown>[]>;
  restart: (env?: Record<string, string>) => Promise<void>;
  /** Stops the agent with its gateway, and removes the boxes and the database. */
  dispose: () => Promise<void>;
}

/** An agent in a process of its own. */
export interface AgentProcess extends RunningAgent {
  pid: () => number;
  /** Sends a signal, and waits until the process has ended. */
  kill: (signal: NodeJS.Signals) => Promise<void>;
  /** Kills the agent with SIGKILL and expires the leases of its answers at once, instead of seconds later. */
  die: () => Promise<void>;
}

/** Starts another agent on the data of a gateway, in the process that all hosted services of a worker share. */
export const serveAgent = (gateway: RunningGateway, env: Record<string, string> = {}): Promise<RunningAgent> =>
  serve((settings) => hostService('agent', settings), gateway, env);

/** The same as a process of its own, for tests that kill or measure it. */
export const serveAgentProcess = async (
  gateway: RunningGateway,
  env: Record<string, string> = {},
): Promise<AgentProcess> => {
  const { launch, ...process } = ownProcess('agent');
  const agent = await serve(launch, gateway, env);
  return {
    ...agent,
    ...process,
    async die() {
      await process.kill('SIGKILL');
      await agent.query("update agent.messages set lease_until = now() where status = 'running'");
    },
  };
};

const serve = async (
  launch: (env: Record<string, string>) => Promise<RunningService>,
  gateway: RunningGateway,
  env: Record<string, string>,
): Promise<RunningAgent> => {
  const port = await freePort();
  const url = `http://127.0.0.1:${port}`;
  const settings = { ...env };
  let service: RunningService;

  const start = async () => {
    service = await launch({
      CODEBOX_URL: gateway.url,
      CODEBOX_DATA_DIR: gateway.dataDir,
      CODEBOX_AGENT_PORT: String(port),
      CODEBOX_STOP_SECONDS: '2',
      ...settings,
    });
    await waitUntilReady(service, url);
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
    call,
    send,
    createChat: async (body = {}) => (await send<Chat>('POST', '/v1/chats', body)).body,
    output: () => service.output(),
    stop: () => service.stop(),
    query,
    restart(more = {}) {
      Object.assign(settings, more);
      return start();
    },
    dispose: () => service.stop(),
  };
};

/** Starts an agent with its own gateway and an empty database, and no model but those that `env` names. */
export const startAgent = (env: Record<string, string> = {}, gatewayEnv: Record<string, string> = {}) =>
  withGateway(serveAgent, env, gatewayEnv);

/** The same with the agent as a process of its own. */
export const startAgentProcess = (env: Record<string, string> = {}, gatewayEnv: Record<string, string> = {}) =>
  withGateway(serveAgentProcess, env, gatewayEnv);

const withGateway = async <A extends RunningAgent>(
  serveWith: (gateway: RunningGateway, env: Record<string, string>) => Promise<A>,
  env: Record<string, string>,
  gatewayEnv: Record<string, string>,
): Promise<A> => {
  const gateway = await startGateway(anyDriver[0] ?? 'local', gatewayEnv);
  try {
    const agent = await serveWith(gateway, env);
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
