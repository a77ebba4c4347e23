import type { V1Volume, V1VolumeMount } from '@kubernetes/client-node';
import type { InstanceSpec } from '../../driver.ts';
import { wheelsTarget } from '../../package-sources.ts';
import type { KubernetesSettings } from '../settings.ts';

const certificatesFile = 'ca-certificates.crt';

/** Returns the volumes of a pod; `mnt` is that of its box. */
export const volumesOf = (settings: KubernetesSettings, { limits }: Pick<InstanceSpec, 'limits'>): V1Volume[] => {
  const { certificates, wheels } = settings;
  const scratchMb = Math.ceil(limits.memoryMb / 4);
  const annotation = (name: string) => ({
    path: name,
    fieldRef: { fieldPath: `metadata.annotations['codebox.${name}']` },
  });
  return [
    { name: 'mnt', ...disk(settings, limits.diskMb) },
    { name: 'tmp', ...memory(scratchMb) },
    { name: 'shm', ...memory(scratchMb) },
    { name: 'accounts', downwardAPI: { items: [annotation('passwd'), annotation('group')] } },
    ...(certificates === undefined ? [] : [{ name: 'certificates', configMap: { name: certificates } }]),
    ...(wheels === undefined ? [] : [{ name: 'wheels', persistentVolumeClaim: { claimName: wheels, readOnly: true } }]),
  ];
};

/** Returns where the container of a box has these volumes. */
export const mountsOf = ({ certificates, wheels }: KubernetesSettings): V1VolumeMount[] => {
  const file = (name: string, mountPath: string, subPath: string) => ({ name, mountPath, subPath, readOnly: true });
  return [
    { name: 'mnt', mountPath: '/mnt' },
    { name: 'tmp', mountPath: '/tmp' },
    { name: 'shm', mountPath: '/dev/shm' },
    file('accounts', '/etc/passwd', 'passwd'),
    file('accounts', '/etc/group', 'group'),
    ...(certificates === undefined
      ? []
      : [file('certificates', `/etc/ssl/certs/${certificatesFile}`, certificatesFile)]),
    ...(wheels === undefined ? [] : [{ name: 'wheels', mountPath: wheelsTarget, readOnly: true }]),
  ];
};

const memory = (sizeMb: number) => ({ emptyDir: { medium: 'Memory', sizeLimit: `${sizeMb}Mi` } });

/** A volume of a storage class is created and deleted with its pod, by the cluster. */
const disk = ({ disk: kind }: KubernetesSettings, sizeMb: number): Omit<V1Volume, 'name'> => {
  if (kind === 'memory') return memory(sizeMb);
  if (kind === 'node') return { emptyDir: { sizeLimit: `${sizeMb}Mi` } };
  const resources = { requests: { storage: `${sizeMb}Mi` } };
  const spec = { accessModes: ['ReadWriteOnce'], storageClassName: kind.storageClass, resources };
  return { ephemeral: { volumeClaimTemplate: { spec } } };
};
