import { setTimeout as sleep } from 'node:timers/promises';
import type { BenchClient } from '../client.ts';
import { type GatewayOptions, startGateway } from '../gateway-process.ts';
import { peakMiB, residentMiB } from '../process-memory.ts';
import { atMost, measure, type Row } from '../report.ts';

const code = "while True: print('x' * 1000)";
const floodMs = 10_000;
const growthLimitMiB = 64;
const healthEveryMs = 20;

/** Measures `/healthz` and memory of a new gateway while code prints without end for 10 s to a reader that reads everything. */
export const measureFlood = async (options: GatewayOptions): Promise<Row> => {
  await using gateway = await startGateway(options);
  const { client, pid } = gateway;
  const box = await client.boxes.create();
  try {
    await client.execute(box.id, '1+1');
    const quiet = await watchHealth(client, sleep(2000));
    let loud: number[] = [];
    let runs: FloodEnd[] = [];
    const before = await residentMiB(pid);
    const peak = await peakMiB(pid, async () => {
      const flood = floodFor(client, box.id);
      [loud, runs] = await Promise.all([watchHealth(client, flood), flood]);
    });
    const ends = runs.map(({ status, bytes, ms }) => `${status} after ${Math.round(ms)} ms and ${bytes} characters`);
    return {
      id: 'flood',
      title: '`while True: print(…)` for 10 s',
      measures: [measure('/healthz before', 'ms', quiet), measure('/healthz during the flood', 'ms', loud)],
      ratios: [],
      bars: [atMost('growth of the gateway', peak - before, growthLimitMiB, 'MiB')],
      notes: [
        `The new gateway has ${Math.round(before)} MiB of resident memory before the flood.`,
        `The runs ended as follows: ${ends.join('; ')}.`,
      ],
    };
  } finally {
    await client.boxes.delete(box.id);
  }
};

interface FloodEnd {
  status: string;
  bytes: number;
  ms: number;
}

const floodFor = async (client: BenchClient, box: string): Promise<FloodEnd[]> => {
  const ends: FloodEnd[] = [];
  const deadline = performance.now() + floodMs;
  while (performance.now() < deadline) {
    const startedAt = performance.now();
    let [status, bytes] = ['none', 0];
    for await (const { event } of await client.stream(box, { code, timeoutSeconds: floodMs / 1000 }, 'sse')) {
      if (event.type === 'stdout') bytes += String(event.text).length;
      if (event.type === 'done') status = String(event.status);
    }
    ends.push({ status, bytes, ms: performance.now() - startedAt });
  }
  return ends;
};

/** Requests `/healthz` repeatedly until `work` is done. Resolves with the response times. */
const watchHealth = async (client: BenchClient, work: Promise<unknown>): Promise<number[]> => {
  const samples: number[] = [];
  const state = { isDone: false };
  const end = () => {
    state.isDone = true;
  };
  work.then(end, end);
  while (!state.isDone) {
    samples.push(await client.health());
    await sleep(healthEveryMs);
  }
  return samples;
};
