import type { BenchClient } from '../client.ts';
import type { GatewayProcess } from '../gateway-process.ts';
import { atMost, measure, type Row } from '../report.ts';
import { runInKernel, type StockJupyter } from '../stock-jupyter.ts';

const code = 'import time\nprint(time.time())\ntime.sleep(0.3)';
const gatewayName = 'gateway, SSE';
const stockName = 'stock Jupyter Server, WebSocket over TCP';
const limitMs = 60;

/** Measures the time from a `print` to its arrival at the caller while the code still runs. */
export const measureFirstByte = async (
  gateway: GatewayProcess,
  stock: StockJupyter | undefined,
  rounds: number,
): Promise<Row> => {
  const { client } = gateway;
  const box = await client.boxes.create();
  const kernel = await stock?.startKernel();
  const toEpochMs = await readClock();
  const [ours, theirs]: [number[], number[]] = [[], []];
  try {
    await client.execute(box.id, '1+1');
    for (let i = 0; i < rounds; i++) {
      ours.push(await firstPrint(client, box.id, toEpochMs));
      if (!kernel) continue;
      const { printed } = await runInKernel(kernel, code);
      if (printed) theirs.push(toEpochMs(printed.at) - Number(printed.text) * 1000);
    }
  } finally {
    await client.boxes.delete(box.id);
  }
  const measures = [measure(gatewayName, 'ms', ours)];
  if (theirs.length > 0) measures.push(measure(stockName, 'ms', theirs));
  return {
    id: 'first-byte',
    title: 'First byte of a `print` while the code runs on',
    measures,
    ratios: [],
    bars: [atMost('print to caller at p50', measures[0]?.values.p50 ?? Number.NaN, limitMs, 'ms')],
    notes: ['The code prints the time and sleeps without a flush. Both clocks are that of this machine.'],
  };
};

const firstPrint = async (client: BenchClient, box: string, toEpochMs: (at: number) => number): Promise<number> => {
  let delay: number | undefined;
  for await (const { at, event } of await client.stream(box, { code }, 'sse')) {
    if (event.type === 'stdout') delay ??= toEpochMs(at) - Number(event.text) * 1000;
  }
  if (delay === undefined) throw new Error('nothing was printed');
  return delay;
};

/** The wall clock as a function of `performance.now()`: `Date.now()` ticks in milliseconds, so this waits for a tick. */
const readClock = async (): Promise<(at: number) => number> => {
  const before = Date.now();
  let now = before;
  while (now === before) now = Date.now();
  const offset = now - performance.now();
  return (at) => at + offset;
};
