import { Agent, type Dispatcher, request } from 'undici';
import { type Box, type CreateBox, createClient, type Execution } from '#contract';
import { readEvents } from './event-lines.ts';

/** What became of the wish for a box; without an id it was refused. */
export interface Created {
  status: number;
  id: string | undefined;
  kind: 'warm' | 'cold' | undefined;
  /** Of a refusal: when to ask again, in seconds, if it says so. */
  retryAfter: number | undefined;
  ms: number;
}

/**
 * The public API: the typed client, and beside it what is timed, over kept connections and without the client's checks. What is
 * refused throws.
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
    /** For other requests over the same connections. */
    transport: { dispatcher, headers },
    close: () => dispatcher.close(),

    /** Asks for a box; a refusal is an answer too. */
    async create(body: CreateBox = {}): Promise<Created> {
      const startedAt = performance.now();
      const answer = await request(`${url}/v1/boxes`, {
        dispatcher,
        method: 'POST',
        headers: { ...headers, 'content-type': 'application/json' },
        body: JSON.stringify(body),
      });
      const { id, startup } = (await answer.body.json()) as Partial<Box>;
      const ms = performance.now() - startedAt;
      return {
        status: answer.statusCode,
        id: answer.statusCode === 201 ? (id ?? '') : undefined,
        kind: startup?.kind,
        retryAfter: answer.headers['retry-after'] === undefined ? undefined : Number(answer.headers['retry-after']),
        ms,
      };
    },

    /** Runs code and waits for the whole execution. */
    execute: async (box: string, code: string) => (await (await execute(box, { code })).body.json()) as Execution,

    /** Runs a program and gives what it printed. Throws unless it ends well. */
    async command(box: string, argv: readonly string[]): Promise<string> {
      const answer = await request(`${url}/v1/boxes/${box}/commands`, {
        dispatcher,
        method: 'POST',
        headers: { ...headers, 'content-type': 'application/json' },
        body: JSON.stringify({ argv }),
      }).then(checked);
      const { exitCode, stdout = '' } = (await answer.body.json()) as { exitCode: number | null; stdout?: string };
      if (exitCode !== 0) throw new Error(`${argv.join(' ')} ended with ${exitCode}`);
      return stdout;
    },

    /** Runs code and streams its events as they come. */
    async stream(box: string, body: { code: string; timeoutSeconds?: number }, as: 'sse' | 'ndjson') {
      const type = as === 'sse' ? 'text/event-stream' : 'application/x-ndjson';
      return readEvents((await execute(box, body, type)).body, as);
    },

    /** Milliseconds until `/healthz` has answered. */
    async health(): Promise<number> {
      const startedAt = performance.now();
      await (await checked(await request(`${url}/healthz`, { dispatcher }))).body.dump();
      return performance.now() - startedAt;
    },
  };
};

export type BenchClient = ReturnType<typeof createBenchClient>;

/** The answer, when it is not a refusal. */
export const checked = async (answer: Dispatcher.ResponseData): Promise<Dispatcher.ResponseData> => {
  if (answer.statusCode < 300) return answer;
  throw new Error(`the answer was ${answer.statusCode}: ${(await answer.body.text()).slice(0, 500)}`);
};
