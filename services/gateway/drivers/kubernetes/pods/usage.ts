import type { V1Pod } from '@kubernetes/client-node';
import type { InstanceUsage } from '../../driver.ts';
import type { Cluster } from '../api/cluster.ts';
import { instanceLabel } from './pod.ts';

/** The fields that are read of the summary of a kubelet. */
interface Summary {
  pods?: {
    podRef: { uid: string };
    cpu?: { time: string; usageCoreNanoSeconds?: number };
    memory?: { usageBytes?: number };
    process_stats?: { process_count?: number };
  }[];
}

/** Kubelets measure about every 10 s. */
const freshMs = 2000;

/** Reads the usage of pods from the kubelets of their nodes, with one request per node for all callers and pods. */
export const createUsageReader = (cluster: Cluster) => {
  const summaries = new Map<string, { pods: Promise<Map<string, InstanceUsage>>; until: number }>();

  const read = async (node: string): Promise<Map<string, InstanceUsage>> => {
    const body: unknown = await cluster.call(AbortSignal.timeout(5000), (core, options) =>
      core.connectGetNodeProxyWithPath({ name: node, path: 'stats/summary' }, options),
    );
    const { pods = [] }: Summary = typeof body === 'string' ? JSON.parse(body) : body;
    return new Map(pods.flatMap(toUsage));
  };

  const summaryOf = (node: string): Promise<Map<string, InstanceUsage>> => {
    const now = performance.now();
    for (const [name, { until }] of summaries) if (until < now) summaries.delete(name);
    const known = summaries.get(node);
    if (known) return known.pods;
    const pods = read(node).catch(() => new Map());
    summaries.set(node, { pods, until: now + freshMs });
    return pods;
  };

  /** Returns the usage of these pods by instance, without those that are not measured yet or whose node does not respond. */
  return async (pods: readonly V1Pod[]): Promise<Map<string, InstanceUsage>> => {
    const found = await Promise.all(
      pods.map(async ({ metadata, spec }) => {
        const usage = spec?.nodeName && (await summaryOf(spec.nodeName)).get(metadata?.uid ?? '');
        return usage ? [[metadata?.labels?.[instanceLabel] ?? '', usage] as const] : [];
      }),
    );
    return new Map(found.flat());
  };
};

const toUsage = ({
  podRef,
  cpu,
  memory,
  process_stats,
}: NonNullable<Summary['pods']>[number]): [string, InstanceUsage][] => {
  // Nothing has been measured yet.
  if (!cpu?.usageCoreNanoSeconds) return [];
  const usage = {
    at: new Date(cpu.time),
    cpuMs: Math.round(cpu.usageCoreNanoSeconds / 1e6),
    memoryBytes: memory?.usageBytes ?? 0,
    // Processes are counted later than the rest; one is the main process.
    pids: Math.max(1, process_stats?.process_count ?? 0),
  };
  return [[podRef.uid, usage]];
};
