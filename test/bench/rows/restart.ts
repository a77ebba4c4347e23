import type { GatewayProcess } from '../gateway-process.ts';
import { atMost, measure, type Row, ratio } from '../report.ts';
import { runStockKernels } from '../stock-kernels.ts';
import { createWarmBox, importIn } from '../warm-box.ts';

const context = 'new context to first result';
const restart = 'restart to first result';
const stock = 'stock kernel to first result';

/**
 * Measures the time of a fresh Python kernel to its first result with numpy, pandas and matplotlib imported, through the gateway, in
 * turns with a stock kernel that is started inside the same box and runs the same code.
 */
export const measureRestart = async ({ client }: GatewayProcess, rounds: number): Promise<Row> => {
  const box = await createWarmBox(client);
  try {
    const samples: Record<typeof context | typeof restart | typeof stock, number[]> = {
      [context]: [],
      [restart]: [],
      [stock]: [],
    };
    await runStockKernels(client, box, 1);
    for (let i = 0; i < rounds; i++) {
      const createdAt = performance.now();
      const { id } = await client.contexts.create(box, { language: 'python' });
      await importIn(client, box, id);
      const restartedAt = performance.now();
      await client.contexts.restart(box, id);
      await importIn(client, box, id);
      samples[context].push(restartedAt - createdAt);
      samples[restart].push(performance.now() - restartedAt);
      await client.contexts.delete(box, id);
      samples[stock].push(...(await runStockKernels(client, box, 1)).ms);
    }
    const measures = [context, restart, stock].map((name) => measure(name, 'ms', samples[name as typeof stock]));
    const ratios = [ratio(measures, context, stock), ratio(measures, restart, stock)];
    return {
      id: 'restart',
      title: 'A fresh Python kernel with numpy, pandas and matplotlib',
      measures,
      ratios,
      bars: ratios.map(({ name, p50 }) => atMost(`${name}, p50`, p50, 0.125, '×')),
      notes: ['The stock kernel is timed inside the box, without a server or gateway in between.'],
    };
  } finally {
    await client.boxes.delete(box);
  }
};
