import { join } from 'node:path';
import { type GatewayOptions, startGateway } from './gateway-process.ts';
import { describeMachine, type Report, type Row, toMarkdown, writeReport } from './report.ts';
import { measureAgentRound } from './rows/agent-round.ts';
import { measureBurst } from './rows/burst.ts';
import { type ColdTarget, measureColdStart } from './rows/cold-start.ts';
import { measureContextsMemory } from './rows/contexts-memory.ts';
import { measureCreates } from './rows/creates.ts';
import { measureDensity } from './rows/density.ts';
import { measureDialectCommands } from './rows/dialect-commands.ts';
import { measureDialects } from './rows/dialects.ts';
import { measureFirstByte } from './rows/first-byte.ts';
import { measureFlood } from './rows/flood.ts';
import { measureForkedBoxes } from './rows/forked-boxes.ts';
import { measureMemory } from './rows/memory.ts';
import { measureNeighbour } from './rows/neighbour.ts';
import { measureOnePlusOne } from './rows/one-plus-one.ts';
import { measureReaders } from './rows/readers.ts';
import { measureRestart } from './rows/restart.ts';
import { measureThroughput } from './rows/throughput.ts';
import { measureTransfer } from './rows/transfer.ts';
import { measureWarmCluster } from './rows/warm-cluster.ts';
import { measureWarmStart } from './rows/warm-start.ts';
import { startStockJupyter } from './stock-jupyter.ts';

export interface BenchOptions {
  /** The box image for the Docker driver; without it, neither Docker nor the stock Jupyter Server is measured. */
  image: string | undefined;
  /** The daemon's runtimes other than runc. */
  runtimes: readonly string[];
  /** Whether the environment of local boxes is prepared. */
  hasLocal: boolean;
  /** The ids of the rows to measure; all if it is empty. */
  only: readonly string[];
  log: (line: string) => void;
}

type Add = (id: string, run: () => Promise<Row>) => Promise<void>;

/** Measures the rows and resolves with the report, which names what could not be measured. Takes some minutes. */
export const runBench = async (options: BenchOptions): Promise<Report> => {
  const { image, log, only } = options;
  const startedAt = new Date();
  const machine = describeMachine();
  const rows: Row[] = [];
  const own: GatewayOptions = image ? { driver: 'docker', image } : { driver: 'local' };
  const wants = (id: string) => only.length === 0 || only.includes(id);
  const add: Add = async (id, run) => {
    if (!wants(id)) return;
    log(`Measuring ${id}.`);
    rows.push(await run());
  };
  if (inOneGateway.some(wants)) await measureInOneGateway(own, image, add);
  await add('dialects', () => measureDialects(own, { rounds: 300, warmUp: 300 }));
  await add('dialect-commands', () => measureDialectCommands(own, { rounds: 100, warmUp: 40, freshRounds: 20 }));
  await add('flood', () => measureFlood(own));
  await add('warm-start', () => measureWarmStart(own, 15));
  if (image && process.env.CODEBOX_TEST_KUBECONFIG) await add('warm-cluster', () => measureWarmCluster(own, 30));
  await add('burst', () => measureBurst(own));
  await add('neighbour', () => measureNeighbour(own, 3));
  await add('throughput', () => measureThroughput(own));
  await add('readers', () => measureReaders(own));
  if (image) await add('density', () => measureDensity(own));
  if (options.hasLocal) await add('forked-boxes', () => measureForkedBoxes(8, 100));
  await add('creates', () => measureCreates(own, 100));
  await add('cold-start', () => measureColdStart(targets(options), 10));
  return {
    startedAt: startedAt.toISOString(),
    durationSeconds: Math.round((Date.now() - startedAt.getTime()) / 1000),
    machine,
    rows,
  };
};

const inOneGateway = ['one-plus-one', 'first-byte', 'transfer', 'restart', 'contexts-memory', 'memory', 'agent-round'];

/** Measures the rows that share one gateway and one stock Jupyter Server. */
const measureInOneGateway = async (own: GatewayOptions, image: string | undefined, add: Add): Promise<void> => {
  await using stock = image ? await startStockJupyter(image) : undefined;
  await using gateway = await startGateway(own);
  await add('one-plus-one', () => measureOnePlusOne({ gateway, stock, rounds: 300, warmUp: 600 }));
  await add('first-byte', () => measureFirstByte(gateway, stock, 50));
  await add('transfer', () => measureTransfer({ gateway, stock, own, rounds: 5 }));
  await add('restart', () => measureRestart(gateway, 10));
  await add('contexts-memory', () => measureContextsMemory(gateway, 3));
  await add('agent-round', () => measureAgentRound(gateway, 20));
  if (image) await add('memory', () => measureMemory(gateway, image, 3));
};

const targets = (options: BenchOptions): ColdTarget[] => [
  ...(options.image ? [{ name: 'docker', gateway: { driver: 'docker', image: options.image } } as const] : []),
  ...(options.image ? options.runtimes : []).map((runtime) => ({
    name: `docker with ${runtime}`,
    gateway: { driver: 'docker', image: options.image ?? '', runtime } as const,
  })),
  ...(options.hasLocal ? [{ name: 'local', gateway: { driver: 'local' } } as const] : []),
];

/** Writes the report to the folder `results` and resolves with its tables. */
export const keepReport = async (report: Report): Promise<string> => {
  await writeReport(join(import.meta.dirname, 'results'), report);
  return showReport(report);
};

/** Formats a report as tables. */
export const showReport = (report: Report): string => toMarkdown(report);
