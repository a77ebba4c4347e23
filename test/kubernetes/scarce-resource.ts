import { CoreV1Api, KubeConfig, SchedulingV1Api } from '@kubernetes/client-node';

/** A resource of which one node has one unit, and the names of two priority classes for pods that compete for it. */
export interface ScarceResource extends AsyncDisposable {
  resource: string;
  low: string;
  high: string;
}

/** Adds such a resource to the cluster. Disposing of it removes it. */
export const addScarceResource = async (): Promise<ScarceResource> => {
  const config = new KubeConfig();
  config.loadFromFile(process.env.CODEBOX_TEST_KUBECONFIG ?? '');
  const core = config.makeApiClient(CoreV1Api);
  const scheduling = config.makeApiClient(SchedulingV1Api);
  const [name, low, high] = ['unit', 'low', 'high'].map((of) => `codebox-test-${of}-${process.pid}`) as [
    string,
    string,
    string,
  ];
  const nodes = await core.listNode();
  const node = nodes.items.find(({ spec }) => !spec?.taints && !spec?.unschedulable)?.metadata?.name ?? '';
  const setUnits = (op: 'add' | 'remove') =>
    core.patchNodeStatus({
      name: node,
      body: ['capacity', 'allocatable'].map((of) => ({ op, path: `/status/${of}/codebox.test~1${name}`, value: '1' })),
    });
  await setUnits('add');
  for (const [priority, value] of [
    [low, 1],
    [high, 2],
  ] as const)
    await scheduling.createPriorityClass({ body: { metadata: { name: priority }, value } });
  return {
    resource: `codebox.test/${name}`,
    low,
    high,
    async [Symbol.asyncDispose]() {
      for (const priority of [low, high]) await scheduling.deletePriorityClass({ name: priority });
      await setUnits('remove');
    },
  };
};
