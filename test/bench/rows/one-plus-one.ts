import { connectToBoxServer } from '../box-socket.ts';
import type { BenchClient } from '../client.ts';
import { connectDirectly } from '../direct-kernel.ts';
import type { GatewayProcess } from '../gateway-process.ts';
import { type Contender, inTurns, timed } from '../in-turns.ts';
import { atMost, measure, type Row, ratio } from '../report.ts';
import { runInKernel, type StockJupyter } from '../stock-jupyter.ts';

const gatewayName = 'gateway, JSON';
const directName = 'ZeroMQ straight to the same kernel';
const stockKernelName = 'ZeroMQ straight to a stock ipykernel';
const stockName = 'stock Jupyter Server, WebSocket over TCP';
const limit = 2;

export interface OnePlusOneOptions {
  gateway: GatewayProcess;
  stock: StockJupyter | undefined;
  rounds: number;
  warmUp: number;
}

/** Measures `1+1` from the request to the complete response, for each contender in turns of twenty. */
export const measureOnePlusOne = async ({ gateway, stock, rounds, warmUp }: OnePlusOneOptions): Promise<Row> => {
  const { client } = gateway;
  await using stack = new AsyncDisposableStack();
  const box = await client.boxes.create();
  stack.defer(() => client.boxes.delete(box.id));
  await client.execute(box.id, '1+1');
  const direct = stack.use(await connectDirectly(client, box.id, 'own'));
  const toStock = stack.use(await connectDirectly(client, box.id, 'stock'));
  const socket = stack.use(await connectToBoxServer(gateway.dataDir));
  const contenders: Record<string, Contender> = {
    [gatewayName]: timed(async () => (await client.execute(box.id, '1+1')).text === '2'),
    'gateway, NDJSON stream': timed(() => streamOnce(client, box.id)),
    'box server over its Unix socket': timed(async () => /"text\/plain":"2"/.test(await socket.execute('1+1'))),
    [directName]: direct.run,
    [stockKernelName]: toStock.run,
  };
  if (stock) {
    const kernel = await stock.startKernel();
    contenders[stockName] = timed(async () => (await runInKernel(kernel, '1+1')).text === '2');
  }
  const samples = await inTurns(contenders, rounds, warmUp);
  const measures = Object.entries(samples).map(([name, values]) => measure(name, 'ms', values));
  const toStockKernel = ratio(measures, gatewayName, stockKernelName);
  return {
    id: 'one-plus-one',
    title: '`1+1`, from the request to the complete response',
    measures,
    ratios: [
      toStockKernel,
      ratio(measures, gatewayName, directName),
      ratio(measures, 'box server over its Unix socket', directName),
      ...(stock ? [ratio(measures, stockName, gatewayName)] : []),
    ],
    bars: [atMost('gateway / ZeroMQ to a stock ipykernel at p50', toStockKernel.p50, limit, '×')],
    notes: [
      `The baseline is a Jupyter client without any server: ZeroMQ to a stock ipykernel. The kernel of a box is quicker than that; all but the stock contenders use the same one. Connections are kept. ${warmUp} rounds of each are a warm-up, in which Node compiles hot code, as in a gateway that has served for a while.`,
    ],
  };
};

const streamOnce = async (client: BenchClient, box: string): Promise<boolean> => {
  let isRight = false;
  for await (const { event } of await client.stream(box, { code: '1+1' }, 'ndjson')) {
    if (event.type === 'result') isRight = JSON.stringify(event.mime) === '{"text/plain":"2"}';
  }
  return isRight;
};
