import { request } from 'undici';
import { createBenchClient } from './client.ts';

/** What a loud tenant does. */
export interface Noise {
  url: string;
  key: string;
  /** Its boxes. */
  burner: string;
  printer: string;
  seconds: number;
  /** How many callers ask on and on. */
  askers: number;
}

/** What has come of its requests. */
export interface Refusals {
  asked: number;
  refused: number;
}

const burning = 'while True: pass';
const printing = "while True: print('x' * 1000)";

const wait = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms));

/** Uses all that its tenant may have, of CPU, output and requests, and tells how often it was refused. */
const makeNoise = async ({ url, key, burner, printer, seconds, askers }: Noise): Promise<Refusals> => {
  const client = createBenchClient(url, key);
  const deadline = performance.now() + seconds * 1000;
  const isOver = () => performance.now() > deadline;
  const refusals = { asked: 0, refused: 0 };
  const run = async (box: string, code: string) => {
    while (!isOver()) {
      const timeoutSeconds = Math.max(0.5, (deadline - performance.now()) / 1000);
      // A refusal is what its requests have come to.
      const drain = async () => {
        for await (const _ of await client.stream(box, { code, timeoutSeconds }, 'sse'));
      };
      await drain().catch(() => wait(200));
    }
  };
  const ask = async () => {
    while (!isOver()) {
      const answer = await request(`${url}/v1/boxes`, client.transport);
      await answer.body.dump();
      refusals.asked++;
      if (answer.statusCode === 429) refusals.refused++;
    }
  };
  await Promise.all([run(burner, burning), run(printer, printing), ...Array.from({ length: askers }, ask)]);
  await client.close();
  return refusals;
};

// A process of its own: what it costs to make this noise is not what it costs to stand it.
const noise: Noise = JSON.parse(process.argv[2] ?? '');
process.stdout.write(JSON.stringify(await makeNoise(noise)));
