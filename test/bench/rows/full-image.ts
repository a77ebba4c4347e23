import { type GatewayOptions, type GatewayProcess, startGateway } from '../gateway-process.ts';
import { instanceFootprint, instancePids } from '../instances.ts';
import { atMost, type Measure, measure, type Row, ratio } from '../report.ts';
import { timeWarmBox, untilWarm } from '../warm-pool.ts';

const size = 3;
/** The first rounds are a warm-up, in which Node compiles hot code. */
const warmUp = 3;

interface Samples {
  created: number[];
  total: number[];
  memory: number[];
  share: number[];
}

/** Compares warm boxes of the full image with those of the lean one, in turns. Needs Docker. */
export const measureFullImage = async (lean: string, full: string, rounds: number): Promise<Row> => {
  await using stack = new AsyncDisposableStack();
  const start = async (image: string) => {
    const own: GatewayOptions = { driver: 'docker', image, warm: size };
    const samples: Samples = { created: [], total: [], memory: [], share: [] };
    return { gateway: stack.use(await startGateway(own)), samples };
  };
  const contenders = { lean: await start(lean), full: await start(full) };
  for (let i = -warmUp; i < rounds; i++)
    for (const { gateway, samples } of Object.values(contenders)) {
      // Neither pool is refilled while the other one is measured.
      for (const each of Object.values(contenders)) await untilWarm(each.gateway, size);
      await oneRound(gateway, i < 0 ? undefined : samples);
    }
  const measures = Object.entries(contenders).flatMap(([name, { samples }]) => toMeasures(name, samples));
  const created = ratio(measures, 'full: create', 'lean: create');
  const total = ratio(measures, 'full: box to first result', 'lean: box to first result');
  const memory = ratio(measures, 'full: memory', 'lean: memory');
  const share = ratio(measures, 'full: PSS', 'lean: PSS');
  return {
    id: 'full-image',
    title: 'Warm boxes of the full image',
    measures,
    ratios: [created, total, memory, share],
    bars: [
      atMost('create, full / lean at p50', created.p50, 1.3, '×'),
      atMost('memory of a warm box, full / lean at p50', memory.p50, 1.2, '×'),
    ],
    notes: [
      'Both images have the layers of the box image in common, so the two pools share pages of its files.',
      `Each pool keeps ${size} boxes warm, each with a Python kernel that has loaded numpy, pandas and matplotlib.`,
    ],
  };
};

const toMeasures = (name: string, { created, total, memory, share }: Samples): Measure[] => [
  measure(`${name}: create`, 'ms', created),
  measure(`${name}: box to first result`, 'ms', total),
  measure(`${name}: memory`, 'MiB', memory),
  measure(`${name}: PSS`, 'MiB', share),
];

/** Measures a box of a full pool, and the memory of those that wait there. */
const oneRound = async (gateway: GatewayProcess, samples?: Samples): Promise<void> => {
  const footprints = samples
    ? await Promise.all((await instancePids(gateway)).map((pid) => instanceFootprint(gateway, pid)))
    : [];
  const { create, total } = await timeWarmBox(gateway);
  samples?.created.push(create);
  samples?.total.push(total);
  samples?.memory.push(...footprints.map(({ group }) => group));
  samples?.share.push(...footprints.map(({ share }) => share));
};
