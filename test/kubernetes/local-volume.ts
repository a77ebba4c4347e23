import { mkdir, readFile, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { KubeConfig, type KubernetesObject, KubernetesObjectApi } from '@kubernetes/client-node';
import { runHostCommand } from '../../services/gateway/drivers/host/host-command.ts';

export interface LocalVolumeOptions {
  /** The folder of a cluster of this machine, whose nodes have mounts of their own. */
  folder: string;
  node: string;
  /** The name of the volume and of its storage class. */
  name: string;
  sizeMb: number;
}

/** Offers a file system of its own on a node as the one volume of a storage class. Disposing removes both. */
export const offerLocalVolume = async ({
  folder,
  node,
  name,
  sizeMb,
}: LocalVolumeOptions): Promise<AsyncDisposable> => {
  await using stack = new AsyncDisposableStack();
  const run = (...command: string[]) => runHostCommand(command, { env: { PATH: process.env.PATH ?? '' } });
  const starter = (await readFile(join(folder, 'run', `${node}.pid`), 'utf8')).trim();
  const [init = ''] = (await readFile(`/proc/${starter}/task/${starter}/children`, 'utf8')).split(' ');
  const inNode = (...command: string[]) => run('nsenter', '--target', init, '--mount', ...command);

  const path = join(folder, node, 'volumes', name);
  const image = `${path}.img`;
  await mkdir(path, { recursive: true });
  stack.defer(async () => {
    await rm(path, { recursive: true });
    await rm(image, { force: true });
  });
  await run('truncate', '--size', `${sizeMb}M`, image);
  await run('mkfs.ext4', '-q', '-m', '0', image);
  await inNode('mount', '-o', 'loop', image, path);
  stack.defer(async () => void (await inNode('umount', path)));

  const config = new KubeConfig();
  config.loadFromFile(process.env.CODEBOX_TEST_KUBECONFIG ?? '');
  const objects = KubernetesObjectApi.makeApiClient(config);
  for (const object of objectsOf(name, node, path, sizeMb)) {
    await objects.create(object);
    stack.defer(async () => void (await objects.delete(object)));
  }
  const owned = stack.move();
  return { [Symbol.asyncDispose]: () => owned.disposeAsync() };
};

const objectsOf = (name: string, node: string, path: string, sizeMb: number): KubernetesObject[] => {
  const onNode = { key: 'kubernetes.io/hostname', operator: 'In', values: [node] };
  const volume = {
    capacity: { storage: `${sizeMb}Mi` },
    accessModes: ['ReadWriteOnce'],
    persistentVolumeReclaimPolicy: 'Retain',
    storageClassName: name,
    local: { path },
    nodeAffinity: { required: { nodeSelectorTerms: [{ matchExpressions: [onNode] }] } },
  };
  const storageClass = { provisioner: 'kubernetes.io/no-provisioner', volumeBindingMode: 'WaitForFirstConsumer' };
  return [
    { apiVersion: 'storage.k8s.io/v1', kind: 'StorageClass', metadata: { name }, ...storageClass },
    { apiVersion: 'v1', kind: 'PersistentVolume', metadata: { name }, spec: volume } as KubernetesObject,
  ];
};
