import { Agent, request } from 'undici';
import type { Execution } from '#contract';
import { cpuMsOf } from '../cpu-time.ts';
import { type GatewayOptions, type GatewayProcess, startGateway } from '../gateway-process.ts';
import { inWaves } from '../in-waves.ts';
import { residentMiB } from '../process-memory.ts';
import { measure, type Row } from '../report.ts';

const sizes = [1, 100, 2000] as const;
const lines = 20;
const opensAtOnce = 100;
/** Prints when it is told to, so that all readers wait for the same events. */
const code = `input()
import time
for n in range(${lines}):
    print(n, flush=True)
    time.sleep(0.1)`;

/** Measures what readers of one running execution cost the gateway. */
export const measureReaders = async (own: GatewayOptions): Promise<Row> => {
  const settings = { CODEBOX_OPEN_REQUESTS: '10000', CODEBOX_READERS: '10000' };
  await using gateway = await startGateway({ ...own, settings });
  const { id } = await gateway.client.boxes.create();
  await gateway.client.execute(id, '1+1');
  await readAll(gateway, id, 200);
  const measures = [];
  for (const size of sizes) {
    const { cpuMs, memoryMiB, events } = await readAll(gateway, id, size);
    const name = size === 1 ? '1 reader' : `${size} readers`;
    measures.push(measure(`${name}: CPU time for an event of one of them`, 'ms', [cpuMs / events]));
    if (size > 100) measures.push(measure(`${name}: memory`, 'MiB', [memoryMiB]));
  }
  return {
    id: 'readers',
    title: 'Readers of one execution while it prints',
    measures,
    ratios: [],
    bars: [],
    notes: [
      `Of the gateway alone. Each reader has a connection of its own; the code prints ${lines} lines, ten a second.`,
    ],
  };
};

const readAll = async ({ pid, url, client }: GatewayProcess, box: string, count: number) => {
  await using stack = new AsyncDisposableStack();
  const dispatcher = new Agent({ connections: count, bodyTimeout: 0, headersTimeout: 0 });
  stack.defer(() => dispatcher.destroy());
  const at = `${url}/v1/boxes/${box}/executions`;
  const headers = { authorization: String(client.transport.headers.authorization), accept: 'application/x-ndjson' };
  const started = await request(at, { method: 'POST', headers, body: JSON.stringify({ code, detach: true }) });
  const { id } = (await started.body.json()) as Execution;
  const memoryBefore = await residentMiB(pid);
  const readers = await inWaves(count, opensAtOnce, async () => {
    const { body } = await request(`${at}/${id}/events`, { dispatcher, headers });
    const chunks = body[Symbol.asyncIterator]() as AsyncIterator<Buffer, undefined>;
    await chunks.next();
    return chunks;
  });
  const memoryMiB = (await residentMiB(pid)) - memoryBefore;
  const before = await cpuMsOf(pid);
  const ends = readers.map(countEvents);
  await client.executions.input(box, id, '');
  const events = (await Promise.all(ends)).reduce((sum, one) => sum + one, 0);
  return { cpuMs: (await cpuMsOf(pid)) - before, memoryMiB, events };
};

const countEvents = async (chunks: AsyncIterator<Buffer, undefined>): Promise<number> => {
  let text = '';
  for (let next = await chunks.next(); !next.done; next = await chunks.next()) text += next.value.toString();
  return text.split('\n').filter((line) => line !== '').length;
};
