import { afterAll, describe } from 'vitest';
import { createKubernetesDriver } from '../../services/gateway/drivers/kubernetes/driver.ts';
import { podName } from '../../services/gateway/drivers/kubernetes/pods/pod.ts';
import { clusterImage, createBoxNamespace, runtimeClasses } from '../kubernetes/namespace.ts';
import { startSandboxController } from '../kubernetes/sandbox-controller.ts';
import { type ContractPart, contractParts, runDriverContract } from './driver.ts';

const sandboxes = process.env.CODEBOX_TEST_SANDBOXES === '1';
const namespace = await createBoxNamespace('contract', sandboxes ? ['nodes', 'sandboxes'] : undefined);
const controller = sandboxes ? await startSandboxController(namespace.name) : undefined;
afterAll(async () => {
  await controller?.[Symbol.asyncDispose]();
  await namespace[Symbol.asyncDispose]();
});
const { kubeconfig } = namespace;
// A full disk of the other kind ends the box, a minute later.
const seccompProfile = process.env.CODEBOX_TEST_SECCOMP;
const settings = { ...namespace.settings, sandboxes, disk: 'memory', seccompProfile } as const;
const create = (deployment: string) => createKubernetesDriver({ deployment, settings, kubeconfig });

/** On other runtimes than that of the nodes, what these are for: confinement, unless the whole contract is wanted. */
const partsOn = (runtimeClass: string | undefined): ContractPart[] =>
  runtimeClass === undefined || process.env.CODEBOX_TEST_CONTRACT === 'full' ? contractParts : ['confinement'];

/** Instances start and end on a kubelet's ticks, so the parts run side by side, in a deployment each. */
for (const [runtimeClass, part] of runtimeClasses.flatMap((name) => partsOn(name).map((part) => [name, part] as const)))
  describe.concurrent(part, () => {
    const deployment = `contract-${part}${runtimeClass ? `-${runtimeClass}` : ''}`;
    const labelSelector = `codebox.deployment=${deployment}`;
    const isGvisor = runtimeClass === 'gvisor';
    describe(`on pods, runtime class ${runtimeClass}`, { concurrent: false }, () => {
      runDriverContract(
        {
          name: 'kubernetes',
          image: clusterImage,
          create: () => create(deployment),
          createForeign: () => create(`${deployment}-foreign`),
          async leftovers() {
            const { items } = await namespace.admin.listNamespacedPod({ namespace: namespace.name, labelSelector });
            return items.map(({ metadata }) => `pod ${metadata?.name}`);
          },
          kill: (id) => namespace.exec(podName(deployment, id), ['pkill', '-KILL', '-f', 'codebox_server']),
          kernel: isGvisor ? 'gvisor' : 'host',
          ...(runtimeClass && { placement: { runtimeClass }, deadlineMs: 240_000 }),
          hasSeccompFilter: seccompProfile !== undefined,
          outOfMemory: isGvisor ? 'box' : 'program',
          // The nodes of a test cluster may not reach the internet.
          reachesInternet: false,
          measures: true,
        },
        [part],
      );
    });
  });
