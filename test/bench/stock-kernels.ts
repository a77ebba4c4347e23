import { readFile } from 'node:fs/promises';
import { z } from 'zod';
import type { BenchClient } from './client.ts';

const script = new URL('./stock_kernels.py', import.meta.url);
const answerSchema = z.object({ ms: z.array(z.number()), kib: z.array(z.number()) });

/** The imports that each kernel is measured with, and a result. */
export const importsAndResult = 'import numpy, pandas, matplotlib.pyplot\n1 + 1';

/**
 * Starts stock kernels inside a box, one after the other, lets each run the imports, and ends them. Gives the times to each
 * result in milliseconds, and each one's proportional share of memory in MiB while all were there.
 */
export const runStockKernels = async (
  client: BenchClient,
  box: string,
  count: number,
): Promise<{ ms: number[]; mib: number[] }> => {
  const argv = ['python', '-c', await readFile(script, 'utf8'), String(count), importsAndResult];
  const command = await client.commands.run(box, { argv, timeoutSeconds: 300 });
  if (command.exitCode !== 0) throw new Error(`stock kernels failed: ${command.stderr.slice(-2000)}`);
  const { ms, kib } = answerSchema.parse(JSON.parse(command.stdout));
  return { ms, mib: kib.map((value) => value / 1024) };
};
