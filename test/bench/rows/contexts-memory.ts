import type { BenchClient } from '../client.ts';
import type { GatewayProcess } from '../gateway-process.ts';
import { atMost, measure, type Row, ratio } from '../report.ts';
import { runStockKernels } from '../stock-kernels.ts';
import { createWarmBox, importIn } from '../warm-box.ts';

const kernels = 5;
const ours = `${kernels} contexts and the fork server, PSS`;
const oursAlone = `${kernels} contexts, PSS`;
const stock = `${kernels} stock kernels, PSS`;

/** Compares the memory of five Python contexts with numpy, pandas and matplotlib with that of five stock kernels in the same box. */
export const measureContextsMemory = async ({ client }: GatewayProcess, rounds: number): Promise<Row> => {
  const samples = { contexts: [] as number[], all: [] as number[], stock: [] as number[] };
  for (let i = 0; i < rounds; i++) {
    const box = await createWarmBox(client);
    try {
      const shares = await contextShares(client, box);
      samples.contexts.push(shares.contexts);
      samples.all.push(shares.contexts + shares.server);
      const { mib } = await runStockKernels(client, box, kernels);
      samples.stock.push(mib.reduce((sum, one) => sum + one, 0));
    } finally {
      await client.boxes.delete(box);
    }
  }
  const measures = [
    measure(ours, 'MiB', samples.all),
    measure(oursAlone, 'MiB', samples.contexts),
    measure(stock, 'MiB', samples.stock),
  ];
  const compared = ratio(measures, ours, stock);
  return {
    id: 'contexts-memory',
    title: 'Memory of five Python kernels with numpy, pandas and matplotlib',
    measures,
    ratios: [compared],
    bars: [atMost(`${compared.name}, p50`, compared.p50, 0.6, '×')],
    notes: ['PSS: proportional set sizes, as the box itself reads them with all five running.'],
  };
};

/** Creates five contexts, measures the PSS of all of them and of their fork server in MiB, and deletes them. */
const contextShares = async (client: BenchClient, box: string) => {
  const ids: string[] = [];
  for (let i = 0; i < kernels; i++) {
    const { id } = await client.contexts.create(box, { language: 'python' });
    await importIn(client, box, id);
    ids.push(id);
  }
  const pids = await Promise.all(
    ids.map(async (context) => {
      const { text } = await client.executions.run(box, { context, code: 'import os; os.getpid()' });
      return Number(text);
    }),
  );
  const command = await client.commands.run(box, { argv: ['python', '-c', readShares, ...pids.map(String)] });
  if (command.exitCode !== 0) throw new Error(`the memory could not be read: ${command.stderr}`);
  const [contexts = Number.NaN, server = Number.NaN] = command.stdout.split(' ').map((kib) => Number(kib) / 1024);
  for (const id of ids) await client.contexts.delete(box, id);
  return { contexts, server };
};

/** Prints the total PSS of the given processes, and that of the fork server, which has its own OOM score. */
const readShares = `
import glob, re, sys
def share(pid):
    return int(re.search(r"^Pss:\\s+(\\d+) kB", open(f"/proc/{pid}/smaps_rollup").read(), re.M).group(1))
scores = {path.split("/")[2]: open(path).read().strip() for path in glob.glob("/proc/[0-9]*/oom_score_adj")}
[server] = [pid for pid, score in scores.items() if score == "900"]
print(sum(map(share, sys.argv[1:])), share(server))
`;
