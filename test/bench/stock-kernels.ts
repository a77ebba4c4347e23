import { readFile } from 'node:fs/promises';
import { z } from 'zod';
import type { BenchClient } from './client.ts';

const script = new URL('./stock_kernels.py', import.meta.url);
const outputSchema = z.object({ ms: z.array(z.number()), kib: z.array(z.number()) });

/** The code that each kernel is measured with: imports, and an expression. */
export const importsAndResult = 'import numpy, pandas, matplotlib.pyplot\n1 + 1';

/**
 * Starts stock kernels inside a box, one after the other, runs the imports in each, and ends them. Resolves with the time to each
 * result in milliseconds, and the PSS of each in MiB while all of them ran.
 */
export const runStockKernels = async (
  client: BenchClient,
  box: string,
  count: number,
): Promise<{ ms: number[]; mib: number[] }> => {
  const argv = ['python', '-c', await readFile(script, 'utf8'), String(count), importsAndResult];
  const command = await client.commands.run(box, { argv, timeoutSeconds: 300 });
  if (command.exitCode !== 0) throw new Error(`stock kernels failed: ${command.stderr.slice(-2000)}`);
  const { ms, kib } = outputSchema.parse(JSON.parse(command.stdout));
  return { ms, mib: kib.map((value) => value / 1024) };
};
