import { type GatewayOptions, startGateway } from '../gateway-process.ts';
import { type Measure, measure, type Ratio, type Row, ratio } from '../report.ts';
import { measureWarmCost } from '../warm-cost.ts';

const limits = { memoryMb: 400 };

/**
 * Measures boxes whose servers are forked from a parent, and boxes that start their own: what a warm one takes, how fast a pool is filled, and
 * with the local driver `burst` boxes at once. The parent has been started before.
 */
export const measureForkedBoxes = async (
  drivers: readonly GatewayOptions[],
  size: number,
  burst: number,
): Promise<Row> => {
  const measures: Measure[] = [];
  const ratios: Ratio[] = [];
  for (const own of drivers) {
    const [long, forked] = [`${own.driver}, own`, `${own.driver}, forked`];
    measures.push(
      ...(await measureOne(long, own, '0', size, burst)),
      ...(await measureOne(forked, own, '1', size, burst)),
    );
    const names = ['CPU of a warm box', 'memory of a warm box', 'PSS of a warm box'];
    if (own.driver === 'local') names.push('at once, first result');
    ratios.push(...names.map((name) => ratio(measures, `${long}: ${name}`, `${forked}: ${name}`)));
  }
  return {
    id: 'forked-boxes',
    title: 'Boxes with servers of their own, and forked from a parent',
    measures,
    ratios,
    bars: [],
    notes: [
      `Pools of ${size} boxes; ${burst} boxes at once without a pool, with room for all, from the request to the first 1+1.`,
    ],
  };
};

const measureOne = async (
  name: string,
  own: GatewayOptions,
  parent: '0' | '1',
  size: number,
  burst: number,
): Promise<Measure[]> => {
  const settings = {
    CODEBOX_SHARED_PARENT: parent,
    CODEBOX_MAX_BOXES: String(burst + size),
    CODEBOX_MAX_MEMORY_MB: '200000',
    CODEBOX_QUEUE_SECONDS: '240',
  };
  const measures = await measureWarmCost(name, { ...own, settings }, size);
  if (own.driver !== 'local') return measures;
  await using gateway = await startGateway({ driver: 'local', settings });
  const { client } = gateway;
  const first = await client.create({ limits });
  if (first.id !== undefined) await client.boxes.delete(first.id);
  const toResult = async (): Promise<number> => {
    const startedAt = performance.now();
    const { id, status } = await client.create({ limits });
    if (id === undefined) throw new Error(`a box was refused: ${status}`);
    await client.execute(id, '1+1');
    return performance.now() - startedAt;
  };
  measures.push(
    measure(`${name}: at once, first result`, 'ms', await Promise.all(Array.from({ length: burst }, toResult))),
  );
  return measures;
};
