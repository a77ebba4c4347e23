import { type Footprint, footprint } from '../footprint.ts';
import type { GatewayProcess } from '../gateway-process.ts';
import { instancePids } from '../instances.ts';
import { type Measure, measure, type Row, ratio } from '../report.ts';
import { runInKernel, startStockJupyter } from '../stock-jupyter.ts';

const imports = 'import numpy, pandas, matplotlib.pyplot';
const states = ['fresh', 'with a Python kernel', 'with numpy, pandas, matplotlib'] as const;

/** Compares the memory of an idle box with that of a stock Jupyter Server of the same image. Needs Docker. */
export const measureMemory = async (gateway: GatewayProcess, image: string, rounds: number): Promise<Row> => {
  const ours: Footprint[][] = [];
  const theirs: Footprint[][] = [];
  for (let i = 0; i < rounds; i++) {
    ours.push(await boxFootprints(gateway));
    theirs.push(await stockFootprints(image));
  }
  const measures = [...toMeasures('box', ours), ...toMeasures('stock Jupyter Server', theirs)];
  return {
    id: 'memory',
    title: 'Memory of an idle box',
    measures,
    ratios: states.map((state) => ratio(measures, `box, ${state}`, `stock Jupyter Server, ${state}`)),
    bars: [],
    notes: [
      'Rows without PSS: the charge of the control group less its inactive file pages. PSS: the proportional set sizes of its processes, which include their share of libraries in the page cache.',
    ],
  };
};

const toMeasures = (name: string, rounds: Footprint[][]): Measure[] =>
  states.flatMap((state, i) => {
    const at = rounds.flatMap((footprints) => footprints[i] ?? []);
    return [
      measure(
        `${name}, ${state}`,
        'MiB',
        at.map(({ group }) => group),
      ),
      measure(
        `${name}, ${state}, PSS`,
        'MiB',
        at.map(({ share }) => share),
      ),
    ];
  });

const boxFootprints = async (gateway: GatewayProcess): Promise<Footprint[]> => {
  const { client } = gateway;
  const box = await client.boxes.create();
  try {
    const [pid, ...more] = await instancePids(gateway);
    if (pid === undefined || more.length > 0) throw new Error('the gateway does not have exactly one box');
    const fresh = await footprint(pid);
    await client.execute(box.id, '1+1');
    const idle = await footprint(pid);
    await client.execute(box.id, imports);
    return [fresh, idle, await footprint(pid)];
  } finally {
    await client.boxes.delete(box.id);
  }
};

const stockFootprints = async (image: string): Promise<Footprint[]> => {
  await using stock = await startStockJupyter(image);
  const fresh = await footprint(stock.pid);
  const kernel = await stock.startKernel();
  await runInKernel(kernel, '1+1');
  const idle = await footprint(stock.pid);
  await runInKernel(kernel, imports);
  return [fresh, idle, await footprint(stock.pid)];
};
