import { churn } from '../../soak/churn.ts';
import { type GatewayOptions, startGateway } from '../gateway-process.ts';
import { atMost, measure, type Row } from '../report.ts';
import { untilWarm } from '../warm-pool.ts';

const [perSecond, pool, most] = [2, 2, 8];

/** Measures boxes that come and go at a steady rate, each with a run and a file, from a small pool of forked boxes. */
export const measureSoak = async (own: GatewayOptions, seconds: number): Promise<Row> => {
  const settings = { CODEBOX_SHARED_PARENT: '1', CODEBOX_MAX_BOXES: '12', CODEBOX_QUEUE_SECONDS: '120' };
  await using gateway = await startGateway({ ...own, warm: pool, settings });
  const { client } = gateway;
  await untilWarm(gateway, pool);
  const toResult: number[] = [];
  const life = async (): Promise<void> => {
    const startedAt = performance.now();
    const { id, status } = await client.create();
    if (id === undefined) throw new Error(`a box was refused: ${status}`);
    try {
      if ((await client.execute(id, '1+1')).text !== '2') throw new Error('1+1 did not result in 2');
      toResult.push(performance.now() - startedAt);
      await client.files.write(id, 'notes.txt', 'hello');
    } finally {
      await client.boxes.delete(id);
    }
  };
  const { lives, leftOut, failures } = await churn({ seconds, perSecond, most, life });
  return {
    id: 'soak',
    title: `${perSecond} boxes a second for ${seconds} s, from a pool of ${pool}`,
    measures: [measure('made', 'per second', [lives / seconds]), measure('to the first result', 'ms', toResult)],
    ratios: [],
    bars: [
      atMost('left out, as too many lived', leftOut, 0, 'boxes'),
      atMost(failures[0] ? `failed: ${failures[0]}` : 'failed', failures.length, 0, 'boxes'),
    ],
    notes: [],
  };
};
