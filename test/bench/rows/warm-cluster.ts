import { createBoxNamespace } from '../../kubernetes/namespace.ts';
import { type GatewayOptions, startGateway } from '../gateway-process.ts';
import { atMost, measure, type Row, ratio } from '../report.ts';
import { timeWarmBox, untilWarm } from '../warm-pool.ts';

const size = 2;
const warmUp = 3;
const parts = ['total', 'create', 'first'] as const;
type Samples = Record<(typeof parts)[number], number[]>;
const names = { total: 'warm box to first result', create: 'warm create', first: 'first `1+1`' };

/** Measures boxes from the pool of a cluster in turns with those of the Docker driver, on the same machine. */
export const measureWarmCluster = async (own: GatewayOptions, rounds: number): Promise<Row> => {
  await using namespace = await createBoxNamespace('bench');
  // Tests reserve less processor time for a box than a deployment does.
  const settings = { ...namespace.env, CODEBOX_KUBERNETES_CPU_SHARE: '0.25' };
  await using docker = await startGateway({ ...own, warm: size });
  await using kubernetes = await startGateway({ driver: 'kubernetes', warm: size, settings });
  const gateways = { docker, kubernetes };
  const samples = { docker: empty(), kubernetes: empty() };
  for (let i = -warmUp; i < rounds; i++)
    for (const driver of ['docker', 'kubernetes'] as const) {
      await untilWarm(gateways[driver], size);
      const round = await timeWarmBox(gateways[driver]);
      if (i >= 0) for (const part of parts) samples[driver][part].push(round[part]);
    }
  const measures = (['docker', 'kubernetes'] as const).flatMap((driver) =>
    parts.map((part) => measure(`${driver}: ${names[part]}`, 'ms', samples[driver][part])),
  );
  const toDocker = ratio(measures, `kubernetes: ${names.total}`, `docker: ${names.total}`);
  return {
    id: 'warm-cluster',
    title: 'From a warm pool to the first result: a cluster beside Docker',
    measures,
    ratios: [toDocker],
    bars: [atMost('kubernetes / docker, warm box to first result at p50', toDocker.p50, 1.5, '×')],
    notes: ['Nodes of the cluster, Docker and both gateways share this machine.'],
  };
};

const empty = (): Samples => ({ total: [], create: [], first: [] });
