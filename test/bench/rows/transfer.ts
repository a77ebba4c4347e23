import { request } from 'undici';
import { checked } from '../client.ts';
import { startFileFloor } from '../file-floor.ts';
import { type GatewayOptions, type GatewayProcess, startGateway } from '../gateway-process.ts';
import { peakMiB, residentMiB } from '../process-memory.ts';
import { atMost, type Bar, type Measure, measure, type Row, ratio } from '../report.ts';
import type { StockJupyter } from '../stock-jupyter.ts';
import { download, type FileAddress, upload, wholeFile } from '../transfer.ts';

const sizeMiB = 100;
const hugeMiB = 1024;
const growthLimitMiB = 64;
const megabytes = (MiB: number) => (MiB * 1024 * 1024) / 1e6;

type Contender = () => Promise<number>;

export interface TransferOptions {
  gateway: GatewayProcess;
  stock: StockJupyter | undefined;
  /** The options of a new gateway, whose memory is measured. */
  own: GatewayOptions;
  rounds: number;
}

/** Measures the transfer of 100 MiB each way, then the gateway's memory during 1 GiB each way. */
export const measureTransfer = async ({ gateway, stock, own, rounds }: TransferOptions): Promise<Row> => {
  await using stack = new AsyncDisposableStack();
  const { client } = gateway;
  const box = await client.boxes.create({ limits: { diskMb: 3 * hugeMiB } });
  stack.defer(() => client.boxes.delete(box.id));
  const ours = fileAddress(gateway, box.id);
  const floor = stack.use(await startFileFloor());
  const contenders: Record<string, Contender> = {
    'up, gateway': () => upload(ours, sizeMiB),
    'up, trivial server': () => upload(floor, sizeMiB),
    'down, gateway': () => download(ours, sizeMiB),
    'down, trivial server': () => download(floor, sizeMiB),
    ...(stock && {
      'up, stock Jupyter contents API': () => contentsUp(stock),
      'down, stock Jupyter contents API': () => contentsDown(stock),
    }),
  };
  const all = Object.entries(contenders).map(([name, run]) => ({ name, run, samples: [] as number[] }));
  for (let i = -1; i < rounds; i++) {
    for (const { run, samples } of all) {
      const ms = await run();
      // The first round only warms up.
      if (i >= 0) samples.push(megabytes(sizeMiB) / (ms / 1000));
    }
  }
  const measures = all.map(({ name, samples }) => measure(name, 'MB/s', samples));
  const huge = await measureHuge(own);
  return {
    id: 'transfer',
    title: `A file of ${sizeMiB} MiB through the gateway`,
    measures: [...measures, ...huge.measures],
    ratios: [
      ratio(measures, 'up, gateway', 'up, trivial server'),
      ratio(measures, 'down, gateway', 'down, trivial server'),
      ...(stock
        ? [
            ratio(measures, 'up, gateway', 'up, stock Jupyter contents API'),
            ratio(measures, 'down, gateway', 'down, stock Jupyter contents API'),
          ]
        : []),
    ],
    bars: huge.bars,
    notes: [
      'The trivial server is a Node process that pipes to and from a file. The contents API takes base64 in JSON.',
    ],
  };
};

const measureHuge = async (options: GatewayOptions) => {
  await using gateway = await startGateway(options);
  const { client, pid } = gateway;
  const box = await client.boxes.create({ limits: { diskMb: 3 * hugeMiB } });
  await client.execute(box.id, '1+1');
  const address = fileAddress(gateway, box.id);
  const before = await residentMiB(pid);
  const measures: Measure[] = [];
  const bars: Bar[] = [];
  for (const [name, run] of Object.entries({ up: upload, down: download })) {
    let ms = 0;
    const peak = await peakMiB(pid, async () => {
      ms = await run(address, hugeMiB);
    });
    measures.push(measure(`${name}, gateway, 1 GiB`, 'MB/s', [megabytes(hugeMiB) / (ms / 1000)]));
    bars.push(atMost(`growth of the gateway, 1 GiB ${name}`, peak - before, growthLimitMiB, 'MiB'));
  }
  return { measures, bars };
};

const fileAddress = ({ url, client }: GatewayProcess, box: string): FileAddress => ({
  url: `${url}/v1/boxes/${box}/files/file.bin`,
  ...client.transport,
});

const contentsUp = async ({ url, token }: StockJupyter): Promise<number> => {
  const file = wholeFile(sizeMiB);
  const startedAt = performance.now();
  const body = JSON.stringify({ type: 'file', format: 'base64', content: file.toString('base64') });
  const headers = { authorization: `token ${token}`, 'content-type': 'application/json' };
  await (await checked(await request(`${url}/api/contents/file.bin`, { method: 'PUT', headers, body }))).body.dump();
  return performance.now() - startedAt;
};

const contentsDown = async ({ url, token }: StockJupyter): Promise<number> => {
  const startedAt = performance.now();
  const headers = { authorization: `token ${token}` };
  const response = await request(`${url}/api/contents/file.bin?type=file&format=base64`, { headers });
  const { content } = (await (await checked(response)).body.json()) as { content: string };
  const bytes = Buffer.from(content, 'base64').length;
  if (bytes !== sizeMiB * 1024 * 1024) throw new Error(`received ${bytes} bytes`);
  return performance.now() - startedAt;
};
