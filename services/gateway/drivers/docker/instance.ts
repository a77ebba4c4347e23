import { constants } from 'node:os';
import type { ContainerInfo, ContainerInspectInfo } from 'dockerode';
import type { Instance, InstanceSpec } from '../driver.ts';

const labelPrefix = 'codebox.label.';

/** The name of an instance's container. */
export const containerName = (deployment: string, id: string): string => `codebox-${deployment}-${id}`;

/** The labels of everything that belongs to an instance. */
export const dockerLabels = (deployment: string, spec: InstanceSpec): Record<string, string> => ({
  'codebox.deployment': deployment,
  'codebox.instance': spec.id,
  ...Object.fromEntries(Object.entries(spec.labels).map(([key, value]) => [labelPrefix + key, value])),
});

/** What finds every container of a deployment. */
export const deploymentFilter = (deployment: string): { label: string[] } => ({
  label: [`codebox.deployment=${deployment}`, 'codebox.instance'],
});

const ownLabels = (labels: Record<string, string>): Record<string, string> =>
  Object.fromEntries(
    Object.entries(labels)
      .filter(([key]) => key.startsWith(labelPrefix))
      .map(([key, value]) => [key.slice(labelPrefix.length), value]),
  );

/** An instance as a list of containers tells it; how it ended is not in there. */
export const listedInstance = (found: ContainerInfo, addressOf: (id: string) => string): Instance => {
  const id = found.Labels['codebox.instance'] ?? '';
  return {
    id,
    address: addressOf(id),
    labels: ownLabels(found.Labels),
    createdAt: new Date(found.Created * 1000),
    running: found.State === 'running' || found.State === 'paused',
  };
};

/** An instance as its container tells it. */
export const inspectedInstance = (found: ContainerInspectInfo, addressOf: (id: string) => string): Instance => {
  const id = found.Config.Labels['codebox.instance'] ?? '';
  return {
    id,
    address: addressOf(id),
    labels: ownLabels(found.Config.Labels),
    createdAt: new Date(found.Created),
    running: found.State.Running,
    ...(found.State.Running ? {} : { exit: exitOf(found.State) }),
  };
};

/** PID 1 passes its child's end on as 128 + signal. Docker's OOM flag also tells of other processes, so alone it proves nothing. */
const exitOf = ({ ExitCode: code, OOMKilled }: ContainerInspectInfo['State']): NonNullable<Instance['exit']> => {
  const signal = Object.entries(constants.signals).find(([, number]) => number === code - 128)?.[0];
  return { ...(signal === undefined ? { code } : { signal }), oomKilled: OOMKilled && code === 137 };
};
