import { spawn } from 'node:child_process';
import { createWriteStream } from 'node:fs';
import { CoreV1Api, type KubeConfig, type V1Node } from '@kubernetes/client-node';
import { eventually } from '../api/harness.ts';
import { inWaves } from '../bench/in-waves.ts';
import { endChild, mustRun } from '../bench/program.ts';

/** The addresses of simulated pods, which belong to this host while the measurement runs. */
const cidr = '10.244.128.0/17';
const label = 'codebox.test/simulated';
const annotation = 'kwok.x-k8s.io/node';
/** Keeps all other pods away from simulated nodes. */
export const simulatedPlacement = {
  nodeSelector: { [label]: 'true' },
  tolerations: [{ key: annotation, operator: 'Exists' }],
};
const atOnce = 20;

interface SimulatedNodes extends AsyncDisposable {
  readySeconds: number;
}

/**
 * Adds nodes that kwok simulates: their pods run nothing, and are reported as running with addresses of this host. `stages` is the file with
 * kwok's stages of nodes and pods. Disposing removes them.
 */
export const simulateNodes = async (
  config: KubeConfig,
  { kubeconfig, stages, count, log }: { kubeconfig: string; stages: string; count: number; log: string },
): Promise<SimulatedNodes> => {
  await using stack = new AsyncDisposableStack();
  const route = (verb: string) => mustRun(['ip', 'route', verb, 'local', cidr, 'dev', 'lo']);
  await route('add');
  stack.defer(async () => void (await route('del')));

  const selector = `--manage-nodes-with-annotation-selector=${annotation}=fake`;
  const flags = ['--manage-all-nodes=false', selector, '--cidr', cidr, '--node-lease-duration-seconds', '40'];
  const kwok = spawn('kwok', ['--config', stages, '--kubeconfig', kubeconfig, ...flags], {
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const file = createWriteStream(log);
  kwok.stdout.pipe(file);
  kwok.stderr.pipe(file);
  stack.defer(() => endChild(kwok, 5000));

  const core = config.makeApiClient(CoreV1Api);
  stack.defer(async () => void (await core.deleteCollectionNode({ labelSelector: label })));
  const startedAt = performance.now();
  await inWaves(count, atOnce, (n) => core.createNode({ body: nodeOf(`simulated-${n}`) }));
  await eventually(async () => {
    const { items } = await core.listNode({ labelSelector: label });
    return items.filter(isReady).length === count;
  }, 600_000);
  const readySeconds = (performance.now() - startedAt) / 1000;
  const owned = stack.move();
  return { readySeconds, [Symbol.asyncDispose]: () => owned.disposeAsync() };
};

const isReady = ({ status }: V1Node): boolean =>
  status?.conditions?.some(({ type, status: value }) => type === 'Ready' && value === 'True') ?? false;

const nodeOf = (name: string): V1Node => ({
  metadata: {
    name,
    labels: { [label]: 'true', 'kubernetes.io/hostname': name, 'kubernetes.io/os': 'linux' },
    annotations: { [annotation]: 'fake' },
  },
  spec: { taints: [{ key: annotation, value: 'fake', effect: 'NoSchedule' }] },
  status: {
    allocatable: { cpu: '32', memory: '256Gi', pods: '110', 'ephemeral-storage': '1000Gi' },
    capacity: { cpu: '32', memory: '256Gi', pods: '110', 'ephemeral-storage': '1000Gi' },
  },
});
