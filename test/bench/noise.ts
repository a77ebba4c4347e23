import { request } from 'undici';
import { createBenchClient } from './client.ts';

/** The settings of the noisy tenant. */
export interface Noise {
  url: string;
  key: string;
  burner: string;
  printer: string;
  seconds: number;
  /** The number of concurrent callers. */
  callers: number;
}

/** The numbers of the tenant's requests and of the refused ones. */
export interface Refusals {
  requests: number;
  refused: number;
}

const burning = 'while True: pass';
const printing = "while True: print('x' * 1000)";

const wait = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms));

/** Uses the tenant's CPU, output and requests up to their limits. Resolves with the counts of its requests. */
const makeNoise = async ({ url, key, burner, printer, seconds, callers }: Noise): Promise<Refusals> => {
  const client = createBenchClient(url, key);
  const deadline = performance.now() + seconds * 1000;
  const isOver = () => performance.now() > deadline;
  const refusals = { requests: 0, refused: 0 };
  const run = async (box: string, code: string) => {
    while (!isOver()) {
      const timeoutSeconds = Math.max(0.5, (deadline - performance.now()) / 1000);
      // The tenant is over its request limit, so some runs are refused.
      const drain = async () => {
        for await (const _ of await client.stream(box, { code, timeoutSeconds }, 'sse'));
      };
      await drain().catch(() => wait(200));
    }
  };
  const poll = async () => {
    while (!isOver()) {
      const response = await request(`${url}/v1/boxes`, client.transport);
      await response.body.dump();
      refusals.requests++;
      if (response.statusCode === 429) refusals.refused++;
    }
  };
  await Promise.all([run(burner, burning), run(printer, printing), ...Array.from({ length: callers }, poll)]);
  await client.close();
  return refusals;
};

// The noise is made in a process of its own, so that its CPU time does not slow down the measured caller.
const noise: Noise = JSON.parse(process.argv[2] ?? '');
process.stdout.write(JSON.stringify(await makeNoise(noise)));
