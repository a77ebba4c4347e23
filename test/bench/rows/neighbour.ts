import { join } from 'node:path';
import { request } from 'undici';
import { type BenchClient, checked, createBenchClient } from '../client.ts';
import { deleteBoxes, type GatewayOptions, type GatewayProcess, startGateway } from '../gateway-process.ts';
import type { Noise, Refusals } from '../noise.ts';
import { mustRun } from '../program.ts';
import { atMost, measure, type Row, ratio } from '../report.ts';

const noiseProgram = join(import.meta.dirname, '../noise.ts');
const adminKey = 'an-admin-key-of-the-benchmark';
const loudSeconds = 6;
const quietMs = 4000;
const requestsPerMinute = 1200;
const callers = 2;
const limit = 2;
/** A quarter of a CPU for each of its two boxes. */
const small = { cpus: 0.25, memoryMb: 512 };

/** Measures `1+1` of one tenant while another uses its CPU, output and requests up to their limits, in turns with quiet. */
export const measureNeighbour = async (own: GatewayOptions, rounds: number): Promise<Row> => {
  await using gateway = await startGateway({ ...own, settings: { CODEBOX_ADMIN_KEY: adminKey } });
  await using loud = await addTenant(gateway, 'loud', { requestsPerMinute, boxes: 2 });
  await using calm = await addTenant(gateway, 'calm', {});
  const box = await calm.client.boxes.create();
  const burner = await loud.client.boxes.create({ limits: small });
  const printer = await loud.client.boxes.create({ limits: small });
  const refusals = { requests: 0, refused: 0 };
  const [quiet, noisy]: [number[], number[]] = [[], []];
  await runUntil(calm.client, box.id, wait(quietMs));
  for (let round = 0; round < rounds; round++) {
    quiet.push(...(await runUntil(calm.client, box.id, wait(quietMs))));
    const noise = makeNoise({
      url: gateway.url,
      key: loud.key,
      burner: burner.id,
      printer: printer.id,
      seconds: loudSeconds,
      callers,
    });
    noisy.push(...(await runUntil(calm.client, box.id, noise)));
    const { requests, refused } = await noise;
    refusals.requests += requests;
    refusals.refused += refused;
  }
  const measures = [measure('alone', 'ms', quiet), measure('beside it', 'ms', noisy)];
  const share = ratio(measures, 'beside it', 'alone');
  return {
    id: 'neighbour',
    title: '`1+1` beside a tenant at its limits',
    measures,
    ratios: [share],
    bars: [atMost('beside a loud neighbour / alone at p95', share.p95, limit, '×')],
    notes: [
      `The neighbour has two boxes with ${small.cpus} CPUs each: one computes, one prints without end. ${callers} callers send requests without pause against a limit of ${requestsPerMinute} requests per minute: ${refusals.refused} of ${refusals.requests} got a 429.`,
    ],
  };
};

const wait = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms));

/** Runs the noise program. Resolves when it ends. */
const makeNoise = async (noise: Noise): Promise<Refusals> =>
  JSON.parse(await mustRun([process.execPath, noiseProgram, JSON.stringify(noise)]));

interface Tenant extends AsyncDisposable {
  key: string;
  client: BenchClient;
}

const addTenant = async ({ url }: GatewayProcess, name: string, quotas: object): Promise<Tenant> => {
  const call = async (method: 'POST' | 'PATCH', path: string, body: object) => {
    const headers = { authorization: `Bearer ${adminKey}`, 'content-type': 'application/json' };
    const response = await request(`${url}/v1/admin/${path}`, { method, headers, body: JSON.stringify(body) });
    return (await (await checked(response)).body.json()) as { id: string; key: string };
  };
  const { id: tenant } = await call('POST', 'tenants', { name, quotas });
  const { key } = await call('POST', 'keys', { tenant, name });
  const client = createBenchClient(url, key);
  return {
    key,
    client,
    async [Symbol.asyncDispose]() {
      // The tenant may have reached its request limit.
      await call('PATCH', `tenants/${tenant}`, { quotas: { requestsPerMinute: null } });
      await deleteBoxes(client);
      await client.close();
    },
  };
};

/** Runs `1+1` repeatedly until `work` has ended. Resolves with the times. */
const runUntil = async (client: BenchClient, box: string, work: Promise<unknown>): Promise<number[]> => {
  const samples: number[] = [];
  const state = { isDone: false };
  const ended = work.finally(() => {
    state.isDone = true;
  });
  while (!state.isDone) {
    const startedAt = performance.now();
    if ((await client.execute(box, '1+1')).text !== '2') throw new Error('1+1 did not result in 2');
    samples.push(performance.now() - startedAt);
    await wait(5);
  }
  await ended;
  return samples;
};
