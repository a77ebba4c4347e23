import { AuthorizationV1Api, CustomObjectsApi } from '@kubernetes/client-node';
import { CodeBoxError } from '#contract';
import type { Cluster } from './cluster.ts';

/** The optional permissions of this process in a cluster. */
export interface Rights {
  /** Whether limits of running pods can be changed. */
  resize: boolean;
  /** Whether the network of running pods can be changed. */
  connect: boolean;
  /** Whether events can be listed. */
  events: boolean;
  /** Whether nodes can be listed. */
  nodes: boolean;
  /** Whether the usage of pods can be read from kubelets. */
  usage: boolean;
}

/** The objects of agent-sandbox that have a pod each. */
export const sandboxes = { group: 'agents.x-k8s.io', version: 'v1beta1', plural: 'sandboxes' } as const;

interface Action {
  verb: string;
  resource: string;
  group?: string;
  subresource?: string;
  namespace?: string;
}

/**
 * Reads the permissions of this process. Throws `unavailable`, with those that are missing, when it may not manage pods or, if it is to use
 * them, Sandboxes, and when the cluster does not have these.
 */
export const readRights = async (
  cluster: Cluster,
  { namespace, usesSandboxes }: { namespace: string; usesSandboxes: boolean },
  signal: AbortSignal,
): Promise<Rights> => {
  if (usesSandboxes) await checkSandboxes(cluster, signal);
  const authorization = cluster.config.makeApiClient(AuthorizationV1Api);
  const may = async (resourceAttributes: Action): Promise<boolean> => {
    const spec = { resourceAttributes };
    const body = { apiVersion: 'authorization.k8s.io/v1', kind: 'SelfSubjectAccessReview', spec };
    const review = await cluster.call(signal, (_core, options) =>
      authorization.createSelfSubjectAccessReview({ body }, options),
    );
    return review.status?.allowed === true;
  };
  const needed = [
    ...['create', 'delete', 'get', 'list', 'watch'].map((verb) => ({ verb, resource: 'pods' })),
    ...(usesSandboxes ? sandboxActions : []),
  ];
  const allowed = await Promise.all(needed.map((action) => may({ ...action, namespace })));
  const missing = needed.filter((_, index) => allowed[index] !== true);
  if (missing.length > 0) {
    const actions = missing.map(({ verb, resource }) => `${verb} ${resource}`);
    throw new CodeBoxError('unavailable', `The service account may not ${actions.join(', ')} in ${namespace}.`);
  }
  const { resources } = await cluster.call(signal, (core, options) => core.getAPIResources(options));
  const canResize = resources.some(({ name }) => name === 'pods/resize');
  const [resize, connect, events, nodes, usage] = await Promise.all([
    may({ verb: 'patch', resource: 'pods', subresource: 'resize', namespace }),
    // The controller of agent-sandbox restores the labels of its pods, which policies go by.
    !usesSandboxes && may({ verb: 'patch', resource: 'pods', namespace }),
    may({ verb: 'list', resource: 'events', namespace }),
    may({ verb: 'list', resource: 'nodes' }),
    may({ verb: 'get', resource: 'nodes', subresource: 'proxy' }),
  ]);
  return { resize: resize && canResize, connect, events, nodes, usage };
};

const sandboxActions: Action[] = [
  ...['create', 'delete', 'get', 'list'].map((verb) => ({
    verb,
    resource: sandboxes.plural,
    group: sandboxes.group,
  })),
  { verb: 'patch', resource: 'pods' },
];

const checkSandboxes = async (cluster: Cluster, signal: AbortSignal): Promise<void> => {
  const objects = cluster.config.makeApiClient(CustomObjectsApi);
  const found = await cluster.callIfThere(signal, (_core, options) => objects.getAPIResources(sandboxes, options));
  if (!found)
    throw new CodeBoxError('unavailable', `The cluster has no Sandboxes (${sandboxes.group}/${sandboxes.version}).`);
};
