import type { BenchClient } from './client.ts';
import { until } from './deadline.ts';
import { importsAndResult } from './stock-kernels.ts';

const loadMs = 120_000;
const loaded =
  'import sys; print("PIL.PngImagePlugin" in sys.modules and "matplotlib.backends.backend_agg" in sys.modules)';

/** Creates a box and waits until its fork server has loaded its libraries. The caller deletes the box. */
export const createWarmBox = async (client: BenchClient): Promise<string> => {
  const { id: box } = await client.boxes.create({ limits: { memoryMb: 2048 } });
  const check = async (): Promise<true | undefined> => {
    const context = await client.contexts.create(box, { language: 'python' });
    const { outputs } = await client.executions.run(box, { context: context.id, code: loaded });
    await client.contexts.delete(box, context.id);
    return outputs?.some((event) => event.type === 'stdout' && event.text === 'True\n') ? true : undefined;
  };
  await until('the libraries of the fork server', check, { withinMs: loadMs, everyMs: 1500 });
  return box;
};

/** Runs the imports in a context. Throws unless they succeed. */
export const importIn = async (client: BenchClient, box: string, context: string): Promise<void> => {
  const { text, error } = await client.executions.run(box, { context, code: importsAndResult });
  if (text !== '2') throw new Error(`the imports resulted in ${text}: ${error?.value}`);
};
