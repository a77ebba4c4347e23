import type { GatewayOptions } from '../gateway-process.ts';
import type { Measure, Row } from '../report.ts';
import { measureWarmCost } from '../warm-cost.ts';

const size = 8;

/** Measures what idle warm boxes of each driver take, each with its kernel and libraries, and how fast a pool is refilled. */
export const measureDensity = async (drivers: readonly GatewayOptions[]): Promise<Row> => {
  const measures: Measure[] = [];
  for (const own of drivers) measures.push(...(await measureWarmCost(own.driver, own, size)));
  return {
    id: 'density',
    title: 'Idle warm boxes',
    measures,
    ratios: [],
    bars: [],
    notes: [
      `Measured with ${size} boxes, each with a Python kernel that has loaded numpy, pandas and matplotlib. The memory of a box of Docker includes the process that keeps its container; that of a local box does not include the parent of its server, of which there is one per host.`,
      'The CPU of a warm box is that of its own processes until it is warm; that of the whole machine includes the gateway, its database and the Docker daemon while the pool is refilled.',
    ],
  };
};
