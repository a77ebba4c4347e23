import { startGateway } from '../gateway-process.ts';
import { type Measure, measure, type Row, ratio } from '../report.ts';
import { measureWarmCost } from '../warm-cost.ts';

const limits = { memoryMb: 400 };

/**
 * Measures boxes of the local driver whose servers are forked from a parent, and boxes that start their own: what a warm one takes, how fast a
 * pool is filled, and `burst` boxes at once. The parent has been started before.
 */
export const measureForkedBoxes = async (size: number, burst: number): Promise<Row> => {
  const measures = [...(await measureOne('own', '0', size, burst)), ...(await measureOne('forked', '1', size, burst))];
  const ratios = ['CPU of a warm box', 'memory of a warm box', 'PSS of a warm box', 'at once, first result'].map(
    (name) => ratio(measures, `own: ${name}`, `forked: ${name}`),
  );
  return {
    id: 'forked-boxes',
    title: 'Local boxes with servers of their own, and forked from a parent',
    measures,
    ratios,
    bars: [],
    notes: [
      `Pools of ${size} boxes; ${burst} boxes at once without a pool, with room for all, from the request to the first 1+1.`,
    ],
  };
};

const measureOne = async (name: string, parent: '0' | '1', size: number, burst: number): Promise<Measure[]> => {
  const settings = {
    CODEBOX_SHARED_PARENT: parent,
    CODEBOX_MAX_BOXES: String(burst + size),
    CODEBOX_MAX_MEMORY_MB: '200000',
    CODEBOX_QUEUE_SECONDS: '240',
  };
  const measures = await measureWarmCost(name, { driver: 'local', settings }, size);
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
