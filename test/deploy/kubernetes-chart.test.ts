import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import {
  CoreV1Api,
  KubeConfig,
  type KubernetesObject,
  KubernetesObjectApi,
  loadAllYaml,
  type V1NetworkPolicy,
  type V1PodTemplateSpec,
  type V1PolicyRule,
  type V1Service,
  type V1StatefulSetSpec,
} from '@kubernetes/client-node';
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { parse } from 'yaml';
import { projectFolder } from '../../scripts/project.ts';
import { eventually } from '../api/harness.ts';
import { chart, helm, render, renderText, type Values, withValues } from '../kubernetes/chart.ts';
import { schemaLocation, writeSchemas } from '../kubernetes/schemas.ts';

const peers = (name: string) => [{ namespaceSelector: { matchLabels: { 'kubernetes.io/metadata.name': name } } }];

/** The values that deploy/README.md recommends for production. */
const documented = async (): Promise<Values> => {
  const text = await readFile(join(projectFolder, 'deploy/README.md'), 'utf8');
  return parse(/^```yaml\n(.*?)^```/ms.exec(text)?.[1]?.replaceAll('…', '0'.repeat(64)) ?? '');
};
/** Every part of the chart. */
const production: Values = {
  host: 'api.example.com',
  portsDomain: 'boxes.example.com',
  image: { repository: 'registry.example.com:5000/codebox-service', digest: `sha256:${'0'.repeat(64)}` },
  keys: { existingSecret: 'codebox-keys' },
  database: { existingSecret: 'codebox-database' },
  postgres: { enabled: false },
  blobs: { url: 's3+https://s3.eu-central-1.amazonaws.com/bucket/codebox' },
  agent: { enabled: true, host: 'chat.example.com', replicas: 2, envFromSecrets: ['models'] },
  ingress: { enabled: true, className: 'nginx', tls: [{ secretName: 'tls', hosts: ['api.example.com'] }] },
  boxes: { nodeUsage: true, sandboxes: true, templates: { python: { warm: 20 } }, memory: '512Gi' },
  gateway: {
    autoscaling: { enabled: true, openStreams: 200 },
    env: { CODEBOX_QUEUE_SECONDS: 60 },
    serviceAccountAnnotations: { 'eks.amazonaws.com/role-arn': 'arn:aws:iam::1:role/codebox' },
    podLabels: { 'azure.workload.identity/use': 'true' },
  },
  networkPolicy: {
    clients: peers('ingress'),
    monitoring: peers('monitoring'),
    apiServer: { to: ['192.0.2.1/32'] },
    extraEgress: [{ ports: [{ port: 4318 }] }],
  },
};
const settings: [string, Values][] = [
  ['the defaults', {}],
  ['production', production],
  ['deploy/README.md', await documented()],
  [
    'a bucket as a file system',
    { blobs: { volume: { csi: { driver: 'gcsfuse.csi.storage.gke.io' } } }, nameOverride: 'x' },
  ],
];
/** Values that need an operator or the Gateway API in the cluster. */
const extensions: Values = {
  host: 'api.example.com',
  portsDomain: 'boxes.example.com',
  httpRoute: { enabled: true, parentRefs: [{ name: 'gateway' }] },
  monitoring: { serviceMonitor: true, prometheusRule: true, dashboard: true },
  networkPolicy: { monitoring: peers('monitoring') },
};

const ofKind = (objects: KubernetesObject[], kind: string) => objects.filter((object) => object.kind === kind);
/** The pods of all Deployments and StatefulSets; volumes of claims are empty folders. */
const podTemplates = (objects: KubernetesObject[]): V1PodTemplateSpec[] =>
  objects.flatMap((object) => {
    const { template, volumeClaimTemplates = [] } = (object as { spec?: Partial<V1StatefulSetSpec> }).spec ?? {};
    if (!template?.spec) return [];
    const claimed = volumeClaimTemplates.map(({ metadata }) => ({ name: metadata?.name ?? '', emptyDir: {} }));
    return [{ ...template, spec: { ...template.spec, volumes: [...(template.spec.volumes ?? []), ...claimed] } }];
  });

describe('the chart', () => {
  const namespace = `codebox-test-chart-${process.pid}`;
  const config = new KubeConfig();
  config.loadFromFile(process.env.CODEBOX_TEST_KUBECONFIG ?? '');
  const core = config.makeApiClient(CoreV1Api);
  const names = [namespace, `${namespace}-boxes`];
  beforeAll(async () => {
    const labels = { 'pod-security.kubernetes.io/enforce': 'restricted' };
    for (const name of names) await core.createNamespace({ body: { metadata: { name, labels } } });
    // Pods are refused until their namespace has its account.
    await eventually(async () => (await core.listNamespacedServiceAccount({ namespace })).items.length > 0);
  });
  afterAll(async () => {
    for (const name of names) await core.deleteNamespace({ name });
  });

  test.each(settings)('the API server and Pod Security `restricted` accept every object: %s', async (_, values) => {
    await helm('lint', '--strict', chart, ...withValues(values));
    const api = KubernetesObjectApi.makeApiClient(config);
    const objects = await render(namespace, values);
    const inNamespace = (object: KubernetesObject) => ({
      ...object,
      metadata: { namespace, ...object.metadata },
    });
    for (const object of ofKind(objects, 'Namespace')) expect(object.metadata?.name).toBe(`${namespace}-boxes`);
    // Clusters have the definitions of Prometheus only with its operator.
    const known = objects.filter(({ apiVersion }) => !apiVersion?.startsWith('monitoring.coreos.com/'));
    for (const object of known.filter(({ kind }) => kind !== 'Namespace'))
      await api.create(inNamespace(object), undefined, 'All');
    for (const { metadata, spec } of podTemplates(objects)) {
      // The account does not exist: it is among the objects of the dry run.
      const body = {
        metadata: { ...metadata, generateName: 'try-' },
        spec: { ...spec, serviceAccountName: 'default' },
      };
      await core.createNamespacedPod({ namespace, body: body as never, dryRun: 'All' });
    }
  });

  test('kubeconform finds every field in the schemas of the API server, and a misspelt one not', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'codebox-schemas-'));
    onTestFinished(() => rm(folder, { recursive: true }));
    const texts = await Promise.all(settings.map(([, values]) => renderText(namespace, values)));
    const kinds = new Set(texts.flatMap((text) => loadAllYaml(text).map(({ kind }: KubernetesObject) => kind ?? '')));
    await writeSchemas(config, kinds, folder);
    const validate = async (text: string) => {
      // Only an operator brings their schemas.
      const skipped = '-skip=PrometheusRule,ServiceMonitor';
      const child = spawn('kubeconform', ['-strict', '-summary', skipped, schemaLocation(folder)]);
      child.stdin.end(text);
      return (await Array.fromAsync(child.stdout)).join('');
    };
    expect(await validate(texts.join('\n'))).toMatch(/Valid: [1-9]\d*, Invalid: 0, Errors: 0/);
    const misspelt = texts[0]?.replace('terminationGracePeriodSeconds', 'terminationGraceSeconds') ?? '';
    expect(await validate(misspelt)).toMatch(/terminationGraceSeconds.*Invalid: 1, Errors: 0/s);
  });

  test.each(settings)('kube-score finds nothing critical: %s', async (_, values) => {
    const ignored = [
      // Tags are never moved to another image.
      'container-image-pull-policy',
      // The pods of boxes are not part of the chart.
      'networkpolicy-targets-pod',
      // PostgreSQL has the user of its image.
      'container-security-context-user-group-id',
      // They differ in their patience: a gateway that does not respond leaves its Service long before it is ended.
      'pod-probes-identical',
    ];
    const score = spawn('kube-score', [
      'score',
      '-',
      '--output-format=ci',
      ...ignored.map((t) => `--ignore-test=${t}`),
    ]);
    score.stdin.end(await renderText(namespace, values));
    const output = (await Array.fromAsync(score.stdout)).join('');
    if (score.exitCode === null) await once(score, 'exit');
    expect(output).toMatch(/\[OK\] [a-z-]*gateway apps\/v1\/Deployment/);
    expect(output.split('\n').filter((line) => line.startsWith('[CRITICAL]'))).toEqual([]);
  });

  test('gateways and agents stay in their Services while what they need is away', async () => {
    const probes = podTemplates(await render(namespace, production)).map(({ spec }) => spec?.containers[0]);
    expect(probes.map((container) => [container?.name, container?.readinessProbe?.httpGet?.path])).toEqual([
      ['agent', '/healthz'],
      ['gateway', '/healthz'],
    ]);
  });

  test('pods that share a claim of one node run on one node, which can be drained', async () => {
    const together = {
      agent: { enabled: true },
      postgres: { enabled: false },
      database: { url: 'postgresql://db/codebox' },
    };
    const disruptions = (objects: KubernetesObject[]) =>
      ofKind(objects, 'PodDisruptionBudget').map((budget) => (budget as { spec?: { maxUnavailable: unknown } }).spec);
    const shared = await render(namespace, together);
    for (const { metadata, spec } of podTemplates(shared)) {
      const [term] = spec?.affinity?.podAffinity?.requiredDuringSchedulingIgnoredDuringExecution ?? [];
      expect(term?.topologyKey).toBe('kubernetes.io/hostname');
      expect(metadata?.labels).toMatchObject(term?.labelSelector?.matchLabels ?? { term: 'missing' });
    }
    expect(disruptions(shared)).toMatchObject([{ maxUnavailable: '100%' }, { maxUnavailable: '100%' }]);
    for (const blobs of [{ claim: { accessMode: 'ReadWriteMany' } }, { url: 's3+https://s3.example.com/b/c' }]) {
      const apart = await render(namespace, { ...together, blobs });
      expect(podTemplates(apart).map(({ spec }) => spec?.affinity)).toEqual([undefined, undefined]);
      expect(disruptions(apart)).toMatchObject([{ maxUnavailable: 1 }, { maxUnavailable: 1 }]);
    }
  });

  test('a setting takes the place of that of the chart, and no variable is there twice', async () => {
    const env = { CODEBOX_KUBERNETES_DISK: 'memory', CODEBOX_ADMIN_KEY: 'own', CODEBOX_MAX_MEMORY_MB: 1_048_576 };
    const values = {
      boxes: { disk: 'class:fast' },
      gateway: { env },
      agent: { enabled: true, env: { CODEBOX_URL: 'x' } },
    };
    const containers = podTemplates(await render(namespace, values)).flatMap(({ spec }) => spec?.containers ?? []);
    const variables = (name: string) => containers.find((container) => container.name === name)?.env ?? [];
    for (const { name, env: all = [] } of containers)
      expect(new Set(all.map((variable) => variable.name)).size, name).toBe(all.length);
    expect(variables('gateway').filter(({ name }) => name in env)).toEqual([
      { name: 'CODEBOX_ADMIN_KEY', value: 'own' },
      { name: 'CODEBOX_KUBERNETES_DISK', value: 'memory' },
      { name: 'CODEBOX_MAX_MEMORY_MB', value: '1048576' },
    ]);
    expect(variables('agent')).toContainEqual({ name: 'CODEBOX_URL', value: 'x' });
    expect(variables('gateway').find(({ name }) => name === 'DATABASE_URL')?.valueFrom).toBeDefined();
  });

  test('the Service of the API does not have the port of the admin API and the metrics', async () => {
    const values = { ...extensions, gateway: { service: { type: 'LoadBalancer' } } };
    const objects = await render(namespace, values);
    const services = (ofKind(objects, 'Service') as V1Service[]).map(({ metadata, spec }) => [
      metadata?.name,
      spec?.type,
      spec?.ports?.map(({ name }) => name).join(),
    ]);
    expect(services).toContainEqual(['codebox', 'LoadBalancer', 'http']);
    expect(services).toContainEqual(['codebox-admin', 'ClusterIP', 'admin']);
    const agent = { ...values, agent: { enabled: true, service: { type: 'LoadBalancer' } } };
    const policies = ofKind(await render(namespace, agent), 'NetworkPolicy') as V1NetworkPolicy[];
    const ingress = policies.find(({ metadata }) => metadata?.name === 'codebox-agent')?.spec?.ingress;
    expect(ingress).toEqual([
      { ports: [{ protocol: 'TCP', port: 8090 }] },
      { ports: [{ protocol: 'TCP', port: 8091 }], _from: peers('monitoring') },
    ]);
  });

  test('further templates of boxes leave the built-in one with its warm boxes', async () => {
    const templatesOf = async (boxes: Values) =>
      ofKind(await render(namespace, { boxes }), 'ConfigMap').flatMap((map) =>
        'data' in map ? [parse((map.data as Record<string, string>)['templates.yaml'] ?? '')] : [],
      );
    expect(await templatesOf({ warm: 7, templates: { learn: { gpus: 1 } } })).toEqual([
      { learn: { gpus: 1 }, python: { warm: 7 } },
    ]);
    expect(await templatesOf({ templates: { python: { warm: 0 } } })).toEqual([{ python: { warm: 0 } }]);
  });

  test('boxes with the network `internet` reach their name servers, and not what the values except', async () => {
    const boxes = { nameServers: ['10.96.0.10', 'fd00::10'], blockedAddresses: ['198.51.100.7/32', '2001:db8::/32'] };
    const objects = await render(namespace, { boxes });
    const policies = ofKind(objects, 'NetworkPolicy') as V1NetworkPolicy[];
    const [addresses, names] = policies.find(({ metadata }) => metadata?.name === 'internet')?.spec?.egress ?? [];
    expect(addresses?.to?.map(({ ipBlock }) => ipBlock?.except?.at(-1))).toEqual(['198.51.100.7/32', '2001:db8::/32']);
    expect(names?.to?.map(({ ipBlock }) => ipBlock?.cidr)).toEqual(['10.96.0.10/32', 'fd00::10/128']);
    expect(names?.ports?.map(({ port }) => port)).toEqual([53, 53]);
    expect(JSON.stringify(podTemplates(objects))).toContain('"10.96.0.10,fd00::10"');
  });

  test('a gateway has only the permissions that it uses, in the namespace of boxes only', async () => {
    const objects = await render(namespace, {});
    expect(objects.filter(({ kind }) => kind?.startsWith('Cluster'))).toEqual([]);
    expect(ofKind(objects, 'RoleBinding')).toMatchObject([
      { metadata: { namespace: `${namespace}-boxes` }, subjects: [{ name: 'codebox-gateway', namespace }] },
    ]);
    const rules = ofKind(objects, 'Role').flatMap((role) => ('rules' in role ? (role.rules as V1PolicyRule[]) : []));
    expect(rules.map(({ resources, verbs }) => [resources?.join(), [...verbs].sort().join()])).toEqual([
      ['pods', 'create,delete,get,list,watch'],
      ['pods', 'patch'],
      ['pods/resize', 'patch'],
      ['events', 'list'],
      ['namespaces', 'get'],
      ['resourcequotas', 'list'],
    ]);
    expect(JSON.stringify(await render(namespace, production))).not.toContain('"*"');
    const mounted = podTemplates(objects).filter(({ spec }) => spec?.automountServiceAccountToken !== false);
    expect(mounted.map(({ metadata }) => metadata?.labels?.['app.kubernetes.io/name'])).toEqual(['codebox-gateway']);
  });

  test('ports of boxes have hosts, by an Ingress or the Gateway API, and metrics and alerts reach their operators', async () => {
    const ingress = ofKind(await render(namespace, production), 'Ingress');
    const services = JSON.stringify(ingress).matchAll(/"name":"(codebox[a-z-]*)","port"/g);
    expect([...services].map(([, name]) => name)).toEqual(['codebox', 'codebox', 'codebox-agent']);
    const objects = await render(namespace, extensions);
    const routes = ofKind(objects, 'HTTPRoute').map((route) => (route as { spec?: { hostnames: string[] } }).spec);
    expect(routes.map((route) => route?.hostnames)).toEqual([['*.boxes.example.com'], ['api.example.com']]);
    const monitor = ofKind(objects, 'ServiceMonitor')[0] as { spec?: { selector: { matchLabels: object } } };
    const isMonitored = ({ metadata }: KubernetesObject) =>
      Object.entries(monitor.spec?.selector.matchLabels ?? {}).every(([k, value]) => metadata?.labels?.[k] === value);
    expect(ofKind(objects, 'Service').filter(isMonitored)).toMatchObject([
      { metadata: { name: 'codebox-admin', labels: { 'app.kubernetes.io/part-of': 'codebox' } } },
    ]);
    expect(ofKind(objects, 'PrometheusRule')).toMatchObject([{ spec: { groups: [{}, {}, {}] } }]);
    expect(JSON.stringify(ofKind(objects, 'ConfigMap'))).toContain('codebox_open_streams');
  });

  test('webhooks and exports of tenants reach the internet and the networks that are allowed', async () => {
    const values = {
      outbound: { allow: ['10.1.0.0/16'] },
      webhooks: { retrySeconds: [5, 2_000_000], timeoutSeconds: 0.5 },
      networkPolicy: { apiServer: { to: ['192.0.2.1/32'] } },
    };
    const objects = await render(namespace, values);
    const policies = ofKind(objects, 'NetworkPolicy') as V1NetworkPolicy[];
    const egress = policies.find(({ metadata }) => metadata?.name === 'codebox-gateway')?.spec?.egress;
    const toPublic = {
      ipBlock: { cidr: '0.0.0.0/0', except: expect.arrayContaining(['10.0.0.0/8', '169.254.0.0/16']) },
    };
    const toPublicV6 = { ipBlock: { cidr: '::/0', except: expect.arrayContaining(['fc00::/7']) } };
    expect(egress).toContainEqual({ ports: [{ protocol: 'TCP', port: 443 }], to: [toPublic, toPublicV6] });
    expect(egress).toContainEqual({ to: [{ ipBlock: { cidr: '10.1.0.0/16' } }] });
    const containers = podTemplates(objects).flatMap(({ spec }) => spec?.containers ?? []);
    const env = containers.find(({ name }) => name === 'gateway')?.env;
    expect(env).toEqual(
      expect.arrayContaining([
        { name: 'CODEBOX_OUTBOUND_ALLOW', value: '10.1.0.0/16' },
        { name: 'CODEBOX_WEBHOOK_RETRY_SECONDS', value: '5,2000000' },
        { name: 'CODEBOX_WEBHOOK_TIMEOUT_SECONDS', value: '0.5' },
      ]),
    );
    // What is not set does not take the place of a secret's value.
    expect(JSON.stringify(env)).not.toContain('CODEBOX_WEBHOOK_DISABLE_SECONDS');
    expect(JSON.stringify(await render(namespace, {}))).not.toMatch(/CODEBOX_OUTBOUND_ALLOW|CODEBOX_WEBHOOK_/);
  });

  test.each([
    [{ gateway: { replica: 3 } }, "at '/gateway': additional properties 'replica' not allowed"],
    [{ image: { tag: 'latest' } }, "at '/image/tag'"],
    [{ image: { digest: 'sha256:1' } }, "at '/image/digest'"],
    [{ boxes: { memory: 'much' } }, "at '/boxes/memory'"],
    [{ boxes: { disk: 'fast' } }, "at '/boxes/disk'"],
    [{ blobs: { url: 'https://s3.example.com' } }, "at '/blobs/url'"],
    [{ blobs: { claim: { accessMode: 'ReadWriteOncePod' } } }, "at '/blobs/claim/accessMode'"],
    [{ gateway: { env: { 'not a name': '1' } } }, "at '/gateway/env'"],
    [{ networkPolicy: { apiServer: { to: ['everywhere'] } } }, "at '/networkPolicy/apiServer/to/0'"],
    [{ outbound: { allow: ['everywhere'] } }, "at '/outbound/allow/0'"],
    [{ postgres: { enabled: false } }, 'database.existingSecret or database.url is needed without postgres.enabled'],
    [{ database: { url: 'postgresql://db/codebox' } }, 'database.url needs postgres.enabled=false'],
    [{ monitoring: { serviceMonitor: true } }, 'monitoring.serviceMonitor needs networkPolicy.monitoring'],
    [{ ingress: { enabled: true } }, 'ingress.enabled needs host, portsDomain or agent.host'],
  ])('wrong values are refused by name: %j', async (values, message) => {
    await expect(render(namespace, values)).rejects.toThrow(message);
  });
});
