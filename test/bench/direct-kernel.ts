import { readFile } from 'node:fs/promises';
import type { BenchClient } from './client.ts';

export interface DirectKernel extends AsyncDisposable {
  /** Runs `1+1` `rounds` times and resolves with the milliseconds of each. */
  run(rounds: number): Promise<number[]>;
}

const script = new URL('./direct_kernel.py', import.meta.url);

/** The box's own default Python kernel, which must be running, or a stock ipykernel that is started in the same box. */
export type DirectTarget = 'own' | 'stock';

/**
 * Starts the baseline: a program inside the box that talks ZeroMQ to a kernel there. It runs as an ordinary command and measures
 * only the exchange between itself and the kernel.
 */
export const connectDirectly = async (
  client: BenchClient,
  box: string,
  target: DirectTarget,
): Promise<DirectKernel> => {
  const stream = await client.commands.stream(box, {
    argv: [
      'python',
      '-c',
      await readFile(script, 'utf8'),
      ...(target === 'own' ? [await connectionFile(client, box)] : []),
    ],
    timeoutSeconds: 3600,
    openStdin: true,
  });
  const events = stream[Symbol.asyncIterator]();
  let text = '';
  const readLine = async (): Promise<string> => {
    for (;;) {
      const end = text.indexOf('\n');
      if (end >= 0) {
        const line = text.slice(0, end);
        text = text.slice(end + 1);
        return line;
      }
      const next = await events.next();
      if (next.done || next.value.type === 'done') throw new Error(`the direct client ended: ${text}`);
      if ('text' in next.value) text += next.value.text;
    }
  };
  const hello = await readLine();
  if (hello !== 'ready') throw new Error(`the direct client printed: ${hello}${text}`);
  return {
    async run(rounds) {
      await client.commands.input(box, stream.id, { text: `${rounds}\n` });
      const line = await readLine();
      if (!line.startsWith('[')) throw new Error(`the direct client printed: ${line}${text}`);
      return JSON.parse(line) as number[];
    },
    async [Symbol.asyncDispose]() {
      await client.commands.input(box, stream.id, { eof: true });
      while (!(await events.next()).done);
    },
  };
};

const connectionFile = async (client: BenchClient, box: string): Promise<string> => {
  const finder = 'import ipykernel.connect; print(ipykernel.connect.get_connection_file())';
  const found = (await client.execute(box, finder)).outputs?.find((event) => event.type === 'stdout');
  if (found?.type !== 'stdout') throw new Error('the kernel printed no connection file');
  return found.text.trim();
};
