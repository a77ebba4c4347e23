import { join } from 'node:path';
import { deleteBoxes, type GatewayOptions, startGateway } from './gateway-process.ts';
import { unlessEnding } from './owned.ts';
import { startPeers } from './peers/peers.ts';
import { describeMachine, type Failure, type Report, type Row, toMarkdown, writeReport } from './report.ts';
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
import { measureFullImage } from './rows/full-image.ts';
import { measureMemory } from './rows/memory.ts';
import { measureNeighbour } from './rows/neighbour.ts';
import { measureOnePlusOne } from './rows/one-plus-one.ts';
import { measurePeersBurst, measurePeersCreate, measurePeersMemory, measurePeersRun, peerRows } from './rows/peers.ts';
import { measureReaders } from './rows/readers.ts';
import { measureRestart } from './rows/restart.ts';
import { measureSoak } from './rows/soak.ts';
import { measureThroughput } from './rows/throughput.ts';
import { measureTransfer } from './rows/transfer.ts';
import { measureWarmCluster } from './rows/warm-cluster.ts';
import { measureWarmStart } from './rows/warm-start.ts';
import { startStockJupyter } from './stock-jupyter.ts';

export interface BenchOptions {
  /** The box image for the Docker driver; without it, neither Docker nor the stock Jupyter Server is measured. */
  image: string | undefined;
  /** The full image, where the daemon has it. */
  fullImage: string | undefined;
  /** The daemon's runtimes other than runc. */
  runtimes: readonly string[];
  /** Whether the environment of local boxes is prepared. */
  hasLocal: boolean;
  /** The ids of the rows to measure, or names of sets of them; all if it is empty. */
  only: readonly string[];
  log: (line: string) => void;
}

type Add = (id: string, run: () => Promise<Row>) => Promise<void>;

/** Rows that are often measured by themselves, by a name for all of them. */
const sets: Record<string, readonly string[]> = {
  /** What a box takes and how fast it is, beside other ways to run code. */
  key: [...peerRows, 'one-plus-one', 'throughput', 'density', 'forked-boxes', 'cold-start', 'soak'],
  peers: peerRows,
};

/**
 * Measures the rows and resolves with the report, which names what could not be measured. A row that fails ends what it has started, and the
 * others are measured all the same. Takes some minutes.
 */
export const runBench = async (options: BenchOptions): Promise<Report> => {
  const { image, fullImage, hasLocal, log } = options;
  const only = options.only.flatMap((name) => sets[name] ?? [name]);
  const startedAt = new Date();
  const machine = describeMachine();
  const rows: Row[] = [];
  const failed: Failure[] = [];
  const docker: GatewayOptions[] = image ? [{ driver: 'docker', image }] : [];
  const local: GatewayOptions[] = hasLocal ? [{ driver: 'local' }] : [];
  const own: GatewayOptions = docker[0] ?? { driver: 'local' };
  const wants = (id: string) => only.length === 0 || only.includes(id);
  const fail = (id: string, error: unknown) => {
    const reason = error instanceof Error ? error.message : String(error);
    failed.push({ id, reason });
    log(`${id} failed: ${error instanceof Error ? error.stack : reason}`);
  };
  const known = new Set<string>();
  const add: Add = async (id, run) => {
    known.add(id);
    if (!wants(id)) return;
    await unlessEnding();
    log(`Measuring ${id}.`);
    await run().then(
      (row) => rows.push(row),
      // What a row uses is ended under it.
      (error: unknown) => unlessEnding().then(() => fail(id, error)),
    );
  };
  /** Measures rows that share what `measureRows` starts. */
  const addTogether = async (ids: readonly string[], measureRows: () => Promise<void>) => {
    if (ids.some(wants))
      await measureRows().catch((error: unknown) =>
        unlessEnding().then(() => fail(ids.filter(wants).join(', '), error)),
      );
  };
  await addTogether(inOneGateway, () => measureInOneGateway(own, image, add));
  await add('dialects', () => measureDialects(own, { rounds: 300, warmUp: 300 }));
  await add('dialect-commands', () => measureDialectCommands(own, { rounds: 100, warmUp: 40, freshRounds: 20 }));
  await add('flood', () => measureFlood(own));
  await add('warm-start', () => measureWarmStart(own, 15));
  if (image && process.env.CODEBOX_TEST_KUBECONFIG) await add('warm-cluster', () => measureWarmCluster(own, 30));
  if (image && fullImage) await add('full-image', () => measureFullImage(image, fullImage, 20));
  await add('burst', () => measureBurst(own));
  await add('neighbour', () => measureNeighbour(own, 3));
  await add('throughput', () => measureThroughput(own));
  await add('readers', () => measureReaders(own));
  await add('density', () => measureDensity([...docker, ...local]));
  await add('forked-boxes', () => measureForkedBoxes([...docker, ...local], 24, 100));
  await add('creates', () => measureCreates(own, 100));
  await add('cold-start', () => measureColdStart(targets(options), 10));
  // It takes longer than most others together.
  if (only.length > 0) await add('soak', () => measureSoak(own, soakSeconds));
  if (image) await addTogether(peerRows, () => measureBesidePeers([...docker, ...local], image, add));
  for (const id of only) if (!known.has(id)) fail(id, new Error('There is no such row here.'));
  return {
    startedAt: startedAt.toISOString(),
    durationSeconds: Math.round((Date.now() - startedAt.getTime()) / 1000),
    machine,
    rows,
    failed,
  };
};

const soakSeconds = 600;
const inOneGateway = ['one-plus-one', 'first-byte', 'transfer', 'restart', 'contexts-memory', 'memory', 'agent-round'];

/** Measures the rows that share one gateway and one stock Jupyter Server. */
const measureInOneGateway = async (own: GatewayOptions, image: string | undefined, addRow: Add): Promise<void> => {
  await using stock = image ? await startStockJupyter(image) : undefined;
  await using gateway = await startGateway(own);
  // A row that throws must not leave its boxes to the next one.
  const add: Add = (id, run) => addRow(id, () => run().finally(() => deleteBoxes(gateway.client)));
  await add('one-plus-one', () => measureOnePlusOne({ gateway, stock, rounds: 300, warmUp: 600 }));
  await add('first-byte', () => measureFirstByte(gateway, stock, 50));
  await add('transfer', () => measureTransfer({ gateway, stock, own, rounds: 5 }));
  await add('restart', () => measureRestart(gateway, 10));
  await add('contexts-memory', () => measureContextsMemory(gateway, 3));
  await add('agent-round', () => measureAgentRound(gateway, 20));
  if (image) await add('memory', () => measureMemory(gateway, image, 3));
};

const targets = (options: BenchOptions): ColdTarget[] => [
  ...(options.image
    ? [
        { name: 'docker', gateway: { driver: 'docker', image: options.image } } as const,
        {
          name: 'docker, forked',
          gateway: { driver: 'docker', image: options.image, settings: { CODEBOX_SHARED_PARENT: '1' } },
        } as const,
      ]
    : []),
  ...(options.image ? options.runtimes : []).map((runtime) => ({
    name: `docker with ${runtime}`,
    gateway: { driver: 'docker', image: options.image ?? '', runtime } as const,
  })),
  ...(options.hasLocal ? [{ name: 'local', gateway: { driver: 'local' } } as const] : []),
];

/** The number of sandboxes at once, for which CodeBox has a pool. */
const burstSize = 20;

/** Measures the rows that share the products beside which CodeBox is measured. */
const measureBesidePeers = async (drivers: readonly GatewayOptions[], image: string, add: Add): Promise<void> => {
  await using peers = await startPeers(drivers, image, burstSize);
  await add('peers-create', () => measurePeersCreate(peers.products, 10));
  await add('peers-run', () => measurePeersRun(peers.products, 100));
  await add('peers-burst', () => measurePeersBurst(peers.products, burstSize, 2));
  await add('peers-memory', () => measurePeersMemory(peers.products, 4));
};

/** Writes the report to the folder `results`, as `<name>.md` and `<name>.json`, and resolves with its tables. */
export const keepReport = async (report: Report, name: string): Promise<string> => {
  await writeReport(join(import.meta.dirname, 'results'), name, report);
  return showReport(report);
};

/** Formats a report as tables. */
export const showReport = (report: Report): string => toMarkdown(report);
