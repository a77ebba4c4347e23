import type { CreateBox } from '#contract';
import { timeDockerBox } from '../docker-box.ts';
import { type GatewayOptions, type GatewayProcess, startGateway } from '../gateway-process.ts';
import { atMost, measure, type Row, ratio } from '../report.ts';
import { untilWarm } from '../warm-pool.ts';

const size = 2;
const settled = 20;
const names = {
  total: 'warm: box to first result',
  created: 'warm: create',
  first: 'warm: first `1+1`',
  later: 'warm: one `1+1` of many',
  personal: 'warm: create with env, files and changed limits',
  cold: 'cold: box to first result',
  docker: 'cold: `docker run` of the same image to first result',
};

/** A typical request of an app, in which every setting differs from those of the warm instance. */
const personal: CreateBox = {
  user: 'ada',
  env: { MODE: 'fast', TOKEN: 'of the user' },
  files: [
    { path: 'notes.txt', text: 'hello' },
    { path: 'data/table.csv', text: 'x,y\n1,2\n'.repeat(100) },
  ],
  limits: { cpus: 1.5, memoryMb: 1536, pids: 200 },
};

/** Measures a box from the pool, in turns with a cold box and with a container of the same image. */
export const measureWarmStart = async (own: GatewayOptions, rounds: number): Promise<Row> => {
  await using gateway = await startGateway({ ...own, warm: size });
  await using withoutPool = await startGateway(own);
  const samples: Record<keyof typeof names, number[]> = {
    ...{ total: [], created: [], first: [], later: [], personal: [], cold: [], docker: [] },
  };
  for (let i = -2; i < rounds; i++) {
    const round = await oneRound(gateway, withoutPool, own.image, i);
    // The first rounds are a warm-up, in which Node compiles hot code.
    if (i >= 0) for (const name of Object.keys(names) as (keyof typeof names)[]) samples[name].push(...round[name]);
  }
  const measures = (Object.keys(names) as (keyof typeof names)[])
    .filter((name) => samples[name].length > 0)
    .map((name) => measure(names[name], 'ms', samples[name]));
  const toCold = ratio(measures, names.total, own.image ? names.docker : names.cold);
  const toLater = ratio(measures, names.total, names.later);
  const toBare = ratio(measures, names.personal, names.created);
  return {
    id: 'warm-start',
    title: 'From a warm pool to the first result',
    measures,
    ratios: [toCold, ratio(measures, names.total, names.cold), toLater, toBare],
    bars: [
      atMost('warm / cold, box to first result at p50', toCold.p50, 1 / 25, '×'),
      atMost('warm box to first result / one warm `1+1` at p50', toLater.p50, 4, '×'),
      atMost('create that binds env, files and limits / bare create at p50', toBare.p50, 2, '×'),
    ],
    notes: [
      'A cold start includes the container, the box server and the kernel. A warm box has also imported its libraries; a cold one has not.',
    ],
  };
};

type Round = Record<keyof typeof names, number[]>;

const oneRound = async (
  gateway: GatewayProcess,
  withoutPool: GatewayProcess,
  image: string | undefined,
  i: number,
): Promise<Round> => {
  await untilWarm(gateway, size);
  const warm = await toFirstResult(gateway, 'warm', settled);
  await untilWarm(gateway, size);
  const bound = await gateway.client.create(personal);
  if (bound.kind !== 'warm' || bound.id === undefined) throw new Error(`the personal box was ${bound.kind}`);
  await gateway.client.boxes.delete(bound.id);
  await untilWarm(gateway, size);
  const isColdRound = i % 3 === 0;
  const cold = isColdRound ? [(await toFirstResult(withoutPool, 'cold', 0)).total] : [];
  const docker = isColdRound && image ? [await timeDockerBox(image)] : [];
  const { total, created, first, later } = warm;
  return { total: [total], created: [created], first: [first], later, personal: [bound.ms], cold, docker };
};

const toFirstResult = async ({ client }: GatewayProcess, kind: 'warm' | 'cold', more: number) => {
  const startedAt = performance.now();
  const { id, kind: actual, ms: created, status } = await client.create();
  if (id === undefined || actual !== kind) throw new Error(`expected a ${kind} box: ${status} ${actual}`);
  const runs: number[] = [];
  let total = 0;
  try {
    for (let n = 0; n <= more; n++) {
      const runAt = performance.now();
      if ((await client.execute(id, '1+1')).text !== '2') throw new Error('1+1 did not result in 2');
      runs.push(performance.now() - runAt);
      if (n === 0) total = performance.now() - startedAt;
    }
  } finally {
    await client.boxes.delete(id);
  }
  return { created, total, first: runs[0] ?? 0, later: runs.slice(more / 2 + 1) };
};
