import { type GatewayOptions, type GatewayProcess, startGateway } from '../gateway-process.ts';
import { mustRun } from '../program.ts';
import { measure, type Row, ratio } from '../report.ts';

/** A driver configuration, and its name in the table. */
export interface ColdTarget {
  name: string;
  gateway: GatewayOptions;
}

interface Lane {
  name: string;
  gateway: GatewayProcess;
  target: ColdTarget;
  created: number[];
  first: number[];
  total: number[];
  run: number[];
}

/**
 * Measures the time from a create request to the first result without a pool, in turns with a one-off container of the same image that
 * runs the same code. The notes name targets that do not work here.
 */
export const measureColdStart = async (targets: readonly ColdTarget[], rounds: number): Promise<Row> => {
  await using stack = new AsyncDisposableStack();
  const lanes: Lane[] = [];
  const notes: string[] = [];
  for (const target of targets) {
    try {
      const gateway = stack.use(await startGateway(target.gateway));
      const lane: Lane = { name: target.name, gateway, target, created: [], first: [], total: [], run: [] };
      await once(lane);
      Object.assign(lane, { created: [], first: [], total: [], run: [] });
      lanes.push(lane);
    } catch (error) {
      notes.push(`Not measured: ${target.name}. ${error instanceof Error ? error.message.slice(0, 300) : error}`);
    }
  }
  for (let i = 0; i < rounds; i++) for (const lane of lanes) await once(lane);
  const measures = lanes.flatMap(({ name, created, first, total, run }) => [
    measure(`${name}: box to first result`, 'ms', total),
    measure(`${name}: create`, 'ms', created),
    measure(`${name}: first \`1+1\``, 'ms', first),
    ...(run.length > 0 ? [measure(runName(name), 'ms', run)] : []),
  ]);
  const compared = lanes.filter(({ run }) => run.length > 0);
  return {
    id: 'cold-start',
    title: 'From nothing to the first result',
    measures,
    ratios: compared.map(({ name }) => ratio(measures, `${name}: box to first result`, runName(name))),
    bars: [],
    notes: [...notes, 'A box has a disk of its own, a server, and a live kernel that the next request finds.'],
  };
};

const runName = (name: string) => `${name}: \`docker run --rm\` with python -c`;

const once = async (lane: Lane): Promise<void> => {
  const { client } = lane.gateway;
  const startedAt = performance.now();
  const box = await client.boxes.create();
  const createdAt = performance.now();
  try {
    if ((await client.execute(box.id, '1+1')).text !== '2') throw new Error('1+1 did not result in 2');
    const doneAt = performance.now();
    lane.created.push(createdAt - startedAt);
    lane.first.push(doneAt - createdAt);
    lane.total.push(doneAt - startedAt);
  } finally {
    await client.boxes.delete(box.id);
  }
  const { image, runtime = 'runc', driver } = lane.target.gateway;
  if (driver !== 'docker' || !image) return;
  const runAt = performance.now();
  const options = ['--runtime', runtime, '--network', 'none', '--user', '1000:1000', '--entrypoint', 'python'];
  const printed = await mustRun(['docker', 'run', '--rm', ...options, image, '-c', 'print(1+1)']);
  if (printed !== '2') throw new Error(`docker run printed ${printed}`);
  lane.run.push(performance.now() - runAt);
};
