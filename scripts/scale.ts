import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { ApiException, CoreV1Api, KubeConfig } from '@kubernetes/client-node';
import type { Box } from '#contract';
import { instanceLabel } from '../services/gateway/drivers/kubernetes/pods/pod.ts';
import { eventually, type RunningGateway, startGateways } from '../test/api/harness.ts';
import { inWaves } from '../test/bench/in-waves.ts';
import { endOnSignal } from '../test/bench/owned.ts';
import { endChild } from '../test/bench/program.ts';
import { createBoxNamespace } from '../test/kubernetes/namespace.ts';
import { setup as bundleServices, teardown as removeBundles } from '../test/prepared-services.ts';
import { type Counters, countRunning, readCounters } from '../test/scale/counters.ts';
import { createBoxes } from '../test/scale/load.ts';
import { simulatedPlacement, simulateNodes } from '../test/scale/nodes.ts';

/**
 * Measures gateways against a real API server and PostgreSQL with simulated nodes and boxes, and prints a table. It needs root, the program
 * `kwok` and the stages of its module, and the kubeconfig of a cluster for tests in CODEBOX_TEST_KUBECONFIG.
 */
const { values } = parseArgs({
  options: {
    stages: { type: 'string', default: 'stages.yaml' },
    nodes: { type: 'string', default: '1000' },
    boxes: { type: 'string', default: '5000' },
    warm: { type: 'string', default: '1000' },
    gateways: { type: 'string', default: '5' },
    rate: { type: 'string', default: '200' },
    seconds: { type: 'string', default: '60' },
    killed: { type: 'string', default: '500' },
  },
});
const size = {
  nodes: Number(values.nodes),
  boxes: Number(values.boxes),
  warm: Number(values.warm),
  gateways: Number(values.gateways),
  rate: Number(values.rate),
  seconds: Number(values.seconds),
  killed: Number(values.killed),
};
const log = (line: string) => process.stderr.write(`${new Date().toISOString().slice(11, 19)} ${line}\n`);
const row = (name: string, value: string) => process.stdout.write(`| ${name} | ${value} |\n`);

await using stack = new AsyncDisposableStack();
endOnSignal(async () => {
  log('Removing what the measurement has made.');
  await stack.disposeAsync();
});
const folder = await mkdtemp(join(tmpdir(), 'codebox-scale-'));
stack.defer(() => rm(folder, { recursive: true, force: true }));
const kubeconfig = process.env.CODEBOX_TEST_KUBECONFIG ?? '';
const config = new KubeConfig();
config.loadFromFile(kubeconfig);

log(`Adding ${size.nodes} nodes.`);
const { stages } = values;
const options = { kubeconfig, stages, count: size.nodes, log: join(folder, 'kwok.log') };
await bundleServices();
stack.defer(removeBundles);
const nodes = stack.use(await simulateNodes(config, options));
const namespace = stack.use(await createBoxNamespace('scale', []));

const servers = spawn(
  process.execPath,
  [join(import.meta.dirname, '../test/scale/box-servers.ts'), kubeconfig, namespace.name],
  { stdio: ['ignore', 'pipe', 'inherit'] },
);
stack.defer(() => endChild(servers, 5000));
await once(servers.stdout, 'data', { signal: AbortSignal.timeout(60_000) });

const templates = join(folder, 'templates.yaml');
const template = { limits: { cpus: 0.1, memoryMb: 320 }, warm: size.warm, placement: simulatedPlacement };
// JSON is YAML.
await writeFile(templates, JSON.stringify({ python: template }));
const gateways = await startGateways('kubernetes', size.gateways, {
  ...namespace.env,
  CODEBOX_TEMPLATES: templates,
  CODEBOX_MAX_BOXES: '10000',
  CODEBOX_MAX_MEMORY_MB: '100000000',
  CODEBOX_QUEUE_SECONDS: '30',
});
const [first] = gateways;
if (first === undefined) throw new Error('there is no gateway');
// Disposing of the gateway would delete its boxes one by one; they are deleted with the namespace.
stack.defer(async () => {
  for (const gateway of gateways) await gateway.kill('SIGTERM');
  await first.kill('SIGKILL');
});

/** Reads one value of the metrics of a gateway. */
const metric = async (gateway: RunningGateway, line: string): Promise<number> => {
  const text = await (await fetch(`${gateway.url}/metrics`)).text();
  const found = text.split('\n').find((one) => one.startsWith(line));
  return Number(found?.slice(found.lastIndexOf(' ')) ?? 0);
};
const warm = 'codebox_pool_instances{template="python",state="warm"}';
const untilWarm = async (count: number) => {
  while ((await metric(first, warm)) < count) await sleep(1000);
};
const perSecond = (before: Counters, after: Counters) => {
  const seconds = (after.at - before.at) / 1000;
  const verbs = Object.entries(after.apiCalls)
    .map(([verb, count]) => [verb, (count - (before.apiCalls[verb] ?? 0)) / seconds] as const)
    .filter(([, rate]) => rate >= 0.1)
    .sort(([, a], [, b]) => b - a);
  return {
    api: verbs.map(([verb, rate]) => `${verb} ${rate.toFixed(1)}`).join(', '),
    transactions: ((after.transactions - before.transactions) / seconds).toFixed(0),
    cpu: `${((after.gatewayCpuMs - before.gatewayCpuMs) / seconds / 10).toFixed(0)} % of a core`,
  };
};

/** Reads a histogram of a gateway: the number of values, their sum, and how many were at most `bound`. */
const histogram = async (gateway: RunningGateway, name: string, bound: string) => ({
  count: await metric(gateway, `${name}_count`),
  sum: await metric(gateway, `${name}_sum`),
  within: await metric(gateway, `${name}_bucket{le="${bound}"}`),
});
const quantile = (sorted: readonly number[], share: number): string =>
  (sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? Number.NaN).toFixed(0);

row('size', `${size.nodes} nodes, ${size.boxes} boxes with ${size.warm} warm ones, ${size.gateways} gateways`);
row('---', '---');
row('nodes ready', `${nodes.readySeconds.toFixed(0)} s`);

log('Filling the pool and creating boxes.');
const filledFrom = performance.now();
const living: Box[] = [];
for (const wanted = size.boxes - size.warm; living.length < wanted; ) {
  await untilWarm(Math.min(size.warm, wanted - living.length));
  const count = Math.min(size.warm, wanted - living.length);
  const made = await createBoxes(gateways, { count, perSecond: size.rate });
  living.push(...made.boxes);
  log(`${living.length} boxes; refused: ${JSON.stringify(made.refused)}`);
}
await untilWarm(size.warm);
const filledSeconds = (performance.now() - filledFrom) / 1000;
row(
  'boxes created and pool filled',
  `${filledSeconds.toFixed(0)} s, ${(size.boxes / filledSeconds).toFixed(1)} pods/s`,
);

log('At rest for a minute.');
const restBefore = await readCounters(config, gateways);
await sleep(60_000);
const restAfter = await readCounters(config, gateways);
const rest = perSecond(restBefore, restAfter);
row('at rest, API calls for pods per second', rest.api);
row('at rest, transactions per second', rest.transactions);
row('at rest, CPU of all gateways', rest.cpu);
row('memory of the largest gateway', `${(restAfter.gatewayMemory / 1024 ** 2).toFixed(0)} MiB`);

log(`Creating ${size.rate} boxes a second for ${size.seconds} s, and deleting as many.`);
const loadBefore = await readCounters(config, gateways);
const load = await createBoxes(gateways, { count: size.rate * size.seconds, perSecond: size.rate, replaced: living });
const loadAfter = await readCounters(config, gateways);
const under = perSecond(loadBefore, loadAfter);
const done = load.tookMs.length;
row('creates asked for', `${size.rate}/s for ${size.seconds} s`);
row(
  'creates served',
  `${done} in ${load.seconds.toFixed(0)} s (${(done / load.seconds).toFixed(0)}/s), ${load.warm} warm`,
);
row('creates refused', JSON.stringify(load.refused));
const [p50, p95, p99] = [0.5, 0.95, 0.99].map((share) => quantile(load.tookMs, share));
row('create, p50 · p95 · p99', `${p50} · ${p95} · ${p99} ms`);
row('under load, API calls for pods per second', under.api);
row('under load, transactions per second', under.transactions);
row('under load, CPU of all gateways', under.cpu);
row('memory of the largest gateway', `${(loadAfter.gatewayMemory / 1024 ** 2).toFixed(0)} MiB`);

log(`Ending ${size.killed} pods at once.`);
const core = config.makeApiClient(CoreV1Api);
const selector = { namespace: namespace.name, labelSelector: instanceLabel };
const { items } = await core.listNamespacedPod(selector);
const doomed = items.filter(({ metadata }) => !metadata?.deletionTimestamp).slice(0, size.killed);
const killedFrom = performance.now();
await inWaves(doomed.length, 50, async (n) => {
  const name = doomed[n]?.metadata?.name ?? '';
  await core
    .deleteNamespacedPod({ name, namespace: namespace.name, gracePeriodSeconds: 0 })
    // A gateway may have deleted it meanwhile.
    .catch((error: unknown) => {
      if (!(error instanceof ApiException && error.code === 404)) throw error;
    });
});
const killedSeconds = (performance.now() - killedFrom) / 1000;
const ids = doomed.map(({ metadata }) => metadata?.labels?.[instanceLabel] ?? '');
await eventually(async () => (await countRunning(first.dataDir, ids)) === 0, 300_000);
const noticedSeconds = (performance.now() - killedFrom) / 1000;
row(`${size.killed} pods removed`, `in ${killedSeconds.toFixed(1)} s`);
row(
  'all of them noticed',
  `${noticedSeconds.toFixed(1)} s after the first, ${(noticedSeconds - killedSeconds).toFixed(1)} s after the last`,
);

const sweeps = await Promise.all(gateways.map((gateway) => histogram(gateway, 'codebox_sweep_seconds', '4')));
const all = sweeps.reduce((sum, one) => sum + one.count, 0);
const within = sweeps.reduce((sum, one) => sum + one.within, 0);
const mean = sweeps.reduce((sum, one) => sum + one.sum, 0) / all;
row('sweeps within 4 s (they begin 5 s apart)', `${within} of ${all}, ${mean.toFixed(2)} s on average`);
