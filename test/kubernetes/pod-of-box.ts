import type { CoreV1Api, V1Pod } from '@kubernetes/client-node';
import type { Box, Client } from '#contract';

/** Returns the pod in which a box runs now. Throws if the namespace has none. */
export const podOfBox = async (core: CoreV1Api, namespace: string, client: Client, { id }: Box): Promise<V1Pod> => {
  const { stdout } = await client.commands.run(id, { command: 'printf %s $CODEBOX_INSTANCE' });
  const labelSelector = `codebox.instance=${stdout}`;
  const { items } = await core.listNamespacedPod({ namespace, labelSelector });
  if (!items[0]) throw new Error(`there is no pod of ${id}`);
  return items[0];
};
