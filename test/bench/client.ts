import { Agent, type Dispatcher, request } from 'undici';
import { type Box, type CreateBox, createClient, type Execution } from '#contract';
import { readEvents } from './event-lines.ts';

/** The outcome of a create request; a refused one has no id. */
export interface Created {
  status: number;
  id: string | undefined;
  kind: 'warm' | 'cold' | undefined;
  /** The `Retry-After` of a refusal, in seconds. */
  retryAfter: number | undefined;
  ms: number;
}

/**
 * The typed client of the public API, and the requests that are timed, over kept connections and without the client's checks. A
 * refused request throws.
 */
export const createBenchClient = (url: string, key: string) => {
  const dispatcher = new Agent({ connections: 128, keepAliveTimeout: 60_000, headersTimeout: 300_000 });
  const headers = { authorization: `Bearer ${key}` };
  const execute = (box: string, body: object, accept = 'application/json') =>
    request(`${url}/v1/boxes/${box}/executions`, {
      dispatcher,
      method: 'POST',
      headers: { ...headers, accept, 'content-type': 'application/json' },
      body: JSON.stringify(body),
    }).then(checked);

  return {
    ...createClient({ url, key }),

    url,
    /** The options of undici for other requests over the same connections. */
    transport: { dispatcher, headers },
    close: () => dispatcher.close(),
    /** Ends the connections with the requests under way, which reject. */
    cut: () => dispatcher.destroy(),

    /** Creates a box; a refusal does not throw. */
    async create(body: CreateBox = {}): Promise<Created> {
      const startedAt = performance.now();
      const response = await request(`${url}/v1/boxes`, {
        dispatcher,
        method: 'POST',
        headers: { ...headers, 'content-type': 'application/json' },
        body: JSON.stringify(body),
      });
      const { id, startup } = (await response.body.json()) as Partial<Box>;
      const ms = performance.now() - startedAt;
      return {
        status: response.statusCode,
        id: response.statusCode === 201 ? (id ?? '') : undefined,
        kind: startup?.kind,
        retryAfter: response.headers['retry-after'] === undefined ? undefined : Number(response.headers['retry-after']),
        ms,
      };
    },

    /** Runs code and waits for the whole execution. */
    execute: async (box: string, code: string) => (await (await execute(box, { code })).body.json()) as Execution,

    /** Runs a program and resolves with its output. Throws unless it exits with 0. */
    async command(box: string, argv: readonly string[]): Promise<string> {
      const response = await request(`${url}/v1/boxes/${box}/commands`, {
        dispatcher,
        method: 'POST',
        headers: { ...headers, 'content-type': 'application/json' },
        body: JSON.stringify({ argv }),
      }).then(checked);
      const { exitCode, stdout = '' } = (await response.body.json()) as { exitCode: number | null; stdout?: string };
      if (exitCode !== 0) throw new Error(`${argv.join(' ')} exited with ${exitCode}`);
      return stdout;
    },

    /** Runs code and streams its events as they arrive. */
    async stream(box: string, body: { code: string; timeoutSeconds?: number }, as: 'sse' | 'ndjson') {
      const type = as === 'sse' ? 'text/event-stream' : 'application/x-ndjson';
      return readEvents((await execute(box, body, type)).body, as);
    },

    /** Resolves with the response time of `/healthz` in milliseconds. */
    async health(): Promise<number> {
      const startedAt = performance.now();
      await (await checked(await request(`${url}/healthz`, { dispatcher }))).body.dump();
      return performance.now() - startedAt;
    },
  };
};

export type BenchClient = ReturnType<typeof createBenchClient>;

/** Resolves with the response. Throws if its status is an error. */
export const checked = async (response: Dispatcher.ResponseData): Promise<Dispatcher.ResponseData> => {
  if (response.statusCode < 300) return response;
  throw new Error(`the response was ${response.statusCode}: ${(await response.body.text()).slice(0, 500)}`);
};
