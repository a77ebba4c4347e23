import { expect, test } from 'vitest';
import { z } from 'zod';
import type { InstanceSpec } from '../../driver.ts';
import { kubernetesVariables, toKubernetesSettings } from '../settings.ts';
import { readPlacement } from './placement.ts';
import { podOf } from './pod.ts';

const settingsOf = (env: Record<string, string>) => toKubernetesSettings(z.object(kubernetesVariables).parse(env));
const podWith = (more: Partial<InstanceSpec> = {}, env: Record<string, string> = {}) => {
  const limits = { cpus: 2, memoryMb: 1024, diskMb: 512, pids: 64 };
  const spec: InstanceSpec = { id: 'i-1', token: 't', image: 'box', limits, network: 'none', ...more };
  return podOf({ deployment: 'dep', site: 'here', settings: settingsOf(env), packages: {}, canConnect: true }, spec);
};

test('a placement is applied to the pod', () => {
  const tolerations = [{ key: 'gpu', operator: 'Exists' as const }];
  const placement = {
    runtimeClass: 'gvisor',
    nodeSelector: { disktype: 'ssd' },
    tolerations,
    priorityClass: 'low',
    hostUsers: false,
    labels: { team: 'data' },
    annotations: { note: 'x' },
    resources: { 'nvidia.com/gpu': 1 },
  };
  const { metadata, spec } = podWith({ placement, template: 'data-' });
  expect(spec).toMatchObject({
    runtimeClassName: 'gvisor',
    nodeSelector: { disktype: 'ssd' },
    tolerations,
    priorityClassName: 'low',
    hostUsers: false,
  });
  expect(metadata?.labels).toMatchObject({ team: 'data', 'codebox.instance': 'i-1', 'codebox.template': 'data' });
  expect(metadata?.annotations).toMatchObject({ note: 'x' });
  const { limits, requests } = spec?.containers[0]?.resources ?? {};
  expect(limits).toMatchObject({ 'nvidia.com/gpu': '1', cpu: '2000m' });
  expect(requests).toMatchObject({ 'nvidia.com/gpu': '1', cpu: '500m', memory: limits?.memory });
});

test('a pod requests and has exactly the GPUs of its template, of their kind', () => {
  const resourcesWith = (more: Partial<InstanceSpec>) => podWith(more).spec?.containers[0]?.resources;
  const { limits, requests } = resourcesWith({ gpus: { count: 2, kind: 'nvidia.com/mig-1g.5gb' } }) ?? {};
  expect([limits?.['nvidia.com/mig-1g.5gb'], requests?.['nvidia.com/mig-1g.5gb']]).toEqual(['2', '2']);
  expect([limits?.cpu, requests?.cpu]).toEqual(['2000m', '500m']);
  // The template is what counts where its placement has other numbers.
  const placement = { resources: { 'nvidia.com/gpu': 1, 'example.com/nic': 1 } };
  expect(resourcesWith({ placement, gpus: { count: 4, kind: 'nvidia.com/gpu' } })?.limits).toMatchObject({
    'nvidia.com/gpu': '4',
    'example.com/nic': '1',
  });
  expect(JSON.stringify(podWith())).not.toContain('gpu');
});

test('autoscalers of nodes do not end boxes, unless the placement of their template permits it', () => {
  const ofCluster = 'cluster-autoscaler.kubernetes.io/safe-to-evict';
  expect(podWith().metadata?.annotations).toMatchObject({
    'karpenter.sh/do-not-disrupt': 'true',
    [ofCluster]: 'false',
  });
  const { metadata } = podWith({ placement: { annotations: { [ofCluster]: 'true' } } });
  expect(metadata?.annotations?.[ofCluster]).toBe('true');
});

test('boxes with a network have the name servers of the settings', () => {
  const env = { CODEBOX_KUBERNETES_NAME_SERVERS: '10.96.0.10, fd00::10' };
  expect(podWith({ network: 'internet' }, env).spec?.dnsConfig).toEqual({ nameservers: ['10.96.0.10', 'fd00::10'] });
  expect(podWith({}, env).spec?.dnsConfig?.nameservers).toEqual(['127.0.0.1']);
});

test.each([
  [{ runtimeclass: 'gvisor' }, /runtimeclass/],
  [{ labels: { 'codebox.instance': 'another' } }, /codebox\./],
  [{ resources: { cpu: '8' } }, /resources/],
  [{ nodeSelector: { a: 1 } }, /nodeSelector/],
])('a wrong placement is an error that names the field: %j', (placement, named) => {
  expect(() => readPlacement(placement)).toThrow(named);
});

test('a disk of a storage class is a volume of the pod, which its user may write to', () => {
  const { spec } = podWith({}, { CODEBOX_KUBERNETES_DISK: 'class:fast' });
  expect(spec?.volumes?.[0]?.ephemeral?.volumeClaimTemplate?.spec).toMatchObject({
    storageClassName: 'fast',
    resources: { requests: { storage: '512Mi' } },
  });
  expect(spec?.securityContext?.fsGroup).toBe(spec?.securityContext?.runAsUser);
  // Neither the node nor its limit counts it.
  expect(spec?.containers[0]?.resources?.limits?.['ephemeral-storage']).toBe('16Mi');
});

test('the same spec gives the same pod, and settings change it', () => {
  expect(podWith()).toEqual(podWith());
  const memory = podWith({}, { CODEBOX_KUBERNETES_DISK: 'memory', CODEBOX_KUBERNETES_PULL_SECRETS: 'one, two' });
  expect(memory.spec?.volumes?.[0]?.emptyDir).toEqual({ medium: 'Memory', sizeLimit: '512Mi' });
  expect(memory.spec?.imagePullSecrets).toEqual([{ name: 'one' }, { name: 'two' }]);
  const env = (pod: typeof memory) => pod.spec?.containers[0]?.env?.map(({ name }) => name);
  expect(env(memory)).toContain('CODEBOX_AWAIT_BLOCKED');
  expect(env(podWith({}, { CODEBOX_KUBERNETES_BLOCKED: 'none' }))).not.toContain('CODEBOX_AWAIT_BLOCKED');
});
