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
const askers = 2;
const limit = 2;
/** A quarter of a CPU for each of its two boxes. */
const small = { cpus: 0.25, memoryMb: 512 };

/** `1+1` of one tenant while another one uses all that it may: CPU, output and requests; in turns with quiet. */
export const measureNeighbour = async (own: GatewayOptions, rounds: number): Promise<Row> => {
  await using gateway = await startGateway({ ...own, settings: { CODEBOX_ADMIN_KEY: adminKey } });
  await using loud = await addTenant(gateway, 'loud', { requestsPerMinute, boxes: 2 });
  await using calm = await addTenant(gateway, 'calm', {});
  const box = await calm.client.boxes.create();
  const burner = await loud.client.boxes.create({ limits: small });
  const printer = await loud.client.boxes.create({ limits: small });
  const refusals = { asked: 0, refused: 0 };
  const [quiet, noisy]: [number[], number[]] = [[], []];
  await askUntil(calm.client, box.id, wait(quietMs));
  for (let round = 0; round < rounds; round++) {
    quiet.push(...(await askUntil(calm.client, box.id, wait(quietMs))));
    const noise = makeNoise({
      url: gateway.url,
      key: loud.key,
      burner: burner.id,
      printer: printer.id,
      seconds: loudSeconds,
      askers,
    });
    noisy.push(...(await askUntil(calm.client, box.id, noise)));
    const { asked, refused } = await noise;
    refusals.asked += asked;
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
      `The neighbour has two boxes with ${small.cpus} CPUs each: one computes, one prints without end; ${askers} callers ask on and on against a limit of ${requestsPerMinute} requests per minute: ${refusals.refused} of ${refusals.asked} got a 429.`,
    ],
  };
};

const wait = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms));

/** Ends with the noise. */
const makeNoise = async (noise: Noise): Promise<Refusals> =>
  JSON.parse(await mustRun([process.execPath, noiseProgram, JSON.stringify(noise)]));

interface Tenant extends AsyncDisposable {
  key: string;
  client: BenchClient;
}

const addTenant = async ({ url }: GatewayProcess, name: string, quotas: object): Promise<Tenant> => {
  const call = async (method: 'POST' | 'PATCH', path: string, body: object) => {
    const headers = { authorization: `Bearer ${adminKey}`, 'content-type': 'application/json' };
    const answer = await request(`${url}/v1/admin/${path}`, { method, headers, body: JSON.stringify(body) });
    return (await (await checked(answer)).body.json()) as { id: string; key: string };
  };
  const { id: tenant } = await call('POST', 'tenants', { name, quotas });
  const { key } = await call('POST', 'keys', { tenant, name });
  const client = createBenchClient(url, key);
  return {
    key,
    client,
    async [Symbol.asyncDispose]() {
      // Its requests may be used up.
      await call('PATCH', `tenants/${tenant}`, { quotas: { requestsPerMinute: null } });
      await deleteBoxes(client);
      await client.close();
    },
  };
};

/** The times of `1+1`, one after the other until `work` has ended. */
const askUntil = async (client: BenchClient, box: string, work: Promise<unknown>): Promise<number[]> => {
  const samples: number[] = [];
  const state = { isDone: false };
  const ended = work.finally(() => {
    state.isDone = true;
  });
  while (!state.isDone) {
    const startedAt = performance.now();
    if ((await client.execute(box, '1+1')).text !== '2') throw new Error('1+1 did not give 2');
    samples.push(performance.now() - startedAt);
    await wait(5);
  }
  await ended;
  return samples;
};
