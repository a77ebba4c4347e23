import type { BenchClient } from '../client.ts';
import { type GatewayOptions, startGateway } from '../gateway-process.ts';
import { inWaves } from '../in-waves.ts';
import { measure, type Row } from '../report.ts';

const sizes = [1, 10, 50] as const;
const most = 50;
const startsAtOnce = 4;
const windowMs = 1000;
const windows = 6;

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
  const measures = [];
  for (const size of sizes) {
    const { perSecond, ms } = await callers(client, boxes.slice(0, size), windows);
    const name = size === 1 ? '1 box' : `${size} boxes`;
    measures.push(measure(name, 'per second', perSecond), measure(`${name}: each`, 'ms', ms));
  }
  return {
    id: 'throughput',
    title: '`1+1` per second of one gateway',
    measures,
    ratios: [],
    bars: [],
    notes: [`Caller, gateway, database and boxes share the CPUs of this machine. ${windows} seconds each.`],
  };
};

const callers = async (client: BenchClient, boxes: readonly string[], seconds: number) => {
  const ms: number[] = [];
  const perSecond = Array.from({ length: seconds }, () => 0);
  const startedAt = performance.now();
  const call = async (box: string) => {
    for (;;) {
      const sentAt = performance.now();
      if ((await client.execute(box, '1+1')).text !== '2') throw new Error('1+1 did not result in 2');
      const now = performance.now();
      const window = Math.floor((now - startedAt) / windowMs);
      if (window >= seconds) return;
      perSecond[window] = (perSecond[window] ?? 0) + 1;
      ms.push(now - sentAt);
    }
  };
  await Promise.all(boxes.map(call));
  return { perSecond, ms };
};
