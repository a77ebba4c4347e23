import type { BenchClient } from '../client.ts';
import { cpuMsOf, databaseCpuMs } from '../cpu-time.ts';
import { connectDirectly } from '../direct-kernel.ts';
import { type GatewayOptions, type GatewayProcess, startGateway } from '../gateway-process.ts';
import { inWaves } from '../in-waves.ts';
import { instanceCpuMs, instancePids } from '../instances.ts';
import { measure, type Row, ratio } from '../report.ts';

const sizes = [1, 10, 50] as const;
const most = 50;
/** The number of boxes at which the CPU time is divided into its parts. */
const dividedAt = 10;
const startsAtOnce = 4;
const windowMs = 1000;
const windows = 6;
/** So many that the starts of the clients, which are not at the same moment, count little. */
const directRounds = 400;
const directName = `${dividedAt} stock kernels over ZeroMQ`;

/** Measures the number of `1+1` per second at one gateway with one sequential caller per box. */
export const measureThroughput = async (own: GatewayOptions): Promise<Row> => {
  await using gateway = await startGateway({ ...own, settings: { CODEBOX_MAX_BOXES: String(most) } });
  const { client } = gateway;
  const boxes = await inWaves(most, startsAtOnce, async () => {
    const { id } = await client.boxes.create();
    await client.execute(id, '1+1');
    return id;
  });
  // In the warm-up Node compiles hot code, as in a gateway that has served for a while.
  await callers(client, boxes.slice(0, 10), 2);
  const pids = await instancePids(gateway);
  const measures = [];
  for (const size of sizes) {
    const before = await cpuByPart(gateway, pids);
    const { perSecond, ms, count } = await callers(client, boxes.slice(0, size), windows);
    const name = size === 1 ? '1 box' : `${size} boxes`;
    measures.push(measure(name, 'per second', perSecond), measure(`${name}: each`, 'ms', ms));
    if (size !== dividedAt) continue;
    const after = await cpuByPart(gateway, pids);
    for (const part of parts) {
      const cpuMs = (after[part] - before[part]) / count;
      measures.push(
        measure(`${name}: CPU of the ${part} for one`, 'ms', [cpuMs]),
        measure(`${name}: by a core of the ${part}`, 'per second', [1000 / cpuMs]),
      );
    }
  }
  measures.push(measure(directName, 'per second', [await directly(client, boxes.slice(0, dividedAt))]));
  return {
    id: 'throughput',
    title: '`1+1` per second of one gateway',
    measures,
    ratios: [ratio(measures, `${dividedAt} boxes`, directName)],
    bars: [],
    notes: [
      `Caller, gateway, database and boxes share the CPUs of this machine. ${windows} seconds each. The baseline has ${directRounds} rounds in each of ten stock kernels in boxes, with a Jupyter client beside it that does nothing else.`,
    ],
  };
};

const parts = ['gateway', 'database', 'boxes'] as const;

/** The CPU time that each part has used so far, in ms. */
const cpuByPart = async (gateway: GatewayProcess, pids: readonly number[]) => {
  const ofBoxes = await Promise.all(pids.map(instanceCpuMs));
  return {
    gateway: await cpuMsOf(gateway.pid),
    database: await databaseCpuMs(gateway.dataDir),
    boxes: ofBoxes.reduce((sum, one) => sum + one, 0),
  };
};

/** Returns how many times a second stock kernels in the boxes run `1+1` for clients there, all at once. */
const directly = async (client: BenchClient, boxes: readonly string[]): Promise<number> => {
  await using stack = new AsyncDisposableStack();
  const kernels = await inWaves(boxes.length, startsAtOnce, async (n) =>
    stack.use(await connectDirectly(client, boxes[n] ?? '', 'stock')),
  );
  const startedAt = performance.now();
  await Promise.all(kernels.map((kernel) => kernel.run(directRounds)));
  return (1000 * directRounds * kernels.length) / (performance.now() - startedAt);
};

const callers = async (client: BenchClient, boxes: readonly string[], seconds: number) => {
  const ms: number[] = [];
  let count = 0;
  const perSecond = Array.from({ length: seconds }, () => 0);
  const startedAt = performance.now();
  const call = async (box: string) => {
    for (;;) {
      const sentAt = performance.now();
      if ((await client.execute(box, '1+1')).text !== '2') throw new Error('1+1 did not result in 2');
      const now = performance.now();
      count += 1;
      const window = Math.floor((now - startedAt) / windowMs);
      if (window >= seconds) return;
      perSecond[window] = (perSecond[window] ?? 0) + 1;
      ms.push(now - sentAt);
    }
  };
  await Promise.all(boxes.map(call));
  return { perSecond, ms, count };
};
