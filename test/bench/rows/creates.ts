import { setTimeout as sleep } from 'node:timers/promises';
import type { BenchClient } from '../client.ts';
import { type GatewayOptions, startGateway } from '../gateway-process.ts';
import { type Measure, measure, type Row } from '../report.ts';
import { untilWarm } from '../warm-pool.ts';

const size = 10;
const ceiling = 24;
const staggerMs = 200;

type Round = (client: BenchClient, count: number) => Promise<First[]>;

interface First {
  kind: 'warm' | 'cold';
  ms: number;
}

/**
 * Measures the time from a create request to the end of the first command, as ComputeSDK's sandbox benchmarks do: one after the
 * other, one every 200 ms, and all at once. Each box is deleted after its command; that is not timed.
 */
export const measureCreates = async (own: GatewayOptions, count: number): Promise<Row> => {
  const settings = { CODEBOX_MAX_BOXES: String(ceiling), CODEBOX_QUEUE_SECONDS: '240' };
  await using gateway = await startGateway({ ...own, warm: size, settings });
  const measures: Measure[] = [];
  const notes = [
    `The command is \`node -v\`; ${size} boxes are kept warm and there is room for ${ceiling}, the others wait in the queue. At the start of a round the pool is full.`,
  ];
  for (const [name, round] of Object.entries(rounds)) {
    await untilWarm(gateway, size, 300_000);
    const firsts = await round(gateway.client, count);
    const ms = firsts.map((one) => one.ms);
    measures.push(measure(name, 'ms', ms));
    notes.push(`${name}: ${firsts.filter(({ kind }) => kind === 'warm').length} of ${count} were warm.`);
  }
  return {
    id: 'creates',
    title: `${count} boxes, from the request to the first command`,
    measures,
    ratios: [],
    bars: [],
    notes,
  };
};

const rounds: Record<string, Round> = {
  async 'one after the other'(client, count) {
    const firsts: First[] = [];
    for (let n = 0; n < count; n++) firsts.push(await toFirstCommand(client));
    return firsts;
  },
  async 'one every 200 ms'(client, count) {
    const started: Promise<First>[] = [];
    for (let n = 0; n < count; n++) {
      started.push(toFirstCommand(client));
      await sleep(staggerMs);
    }
    return Promise.all(started);
  },
  'all at once': (client, count) => Promise.all(Array.from({ length: count }, () => toFirstCommand(client))),
};

const toFirstCommand = async (client: BenchClient): Promise<First> => {
  const startedAt = performance.now();
  const { id, kind, status } = await client.create();
  if (id === undefined || kind === undefined) throw new Error(`a box was refused: ${status}`);
  try {
    await client.command(id, ['node', '-v']);
    return { kind, ms: performance.now() - startedAt };
  } finally {
    await client.boxes.delete(id);
  }
};
