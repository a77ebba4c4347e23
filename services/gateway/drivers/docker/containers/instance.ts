import { constants } from 'node:os';
import type { ContainerInfo, ContainerInspectInfo } from 'dockerode';
import type { Instance, InstanceSpec, Why } from '../../driver.ts';
import { specDigest } from '../../spec-digest.ts';

const specLabel = 'codebox.spec';

/** The name of an instance's container. */
export const containerName = (deployment: string, id: string): string => `codebox-${deployment}-${id}`;

/** The labels of everything that belongs to an instance. */
export const dockerLabels = (deployment: string, spec: InstanceSpec): Record<string, string> => ({
  'codebox.deployment': deployment,
  'codebox.instance': spec.id,
  [specLabel]: specDigest(spec),
});

/** Whether a container was made from exactly this spec. */
export const isMadeFrom = ({ Config }: ContainerInspectInfo, spec: InstanceSpec): boolean =>
  Config.Labels[specLabel] === specDigest(spec);

/** The filter that matches every container of a deployment. */
export const deploymentFilter = (deployment: string): { label: string[] } => ({
  label: [`codebox.deployment=${deployment}`, 'codebox.instance'],
});

type AddressOf = (id: string) => string;

/** Converts an entry of a container list, which does not include the reason of an end. */
export const listedInstance = (found: ContainerInfo, addressOf: AddressOf): Instance =>
  toInstance(found.Labels['codebox.instance'] ?? '', found.State, addressOf);

/** Converts an inspected container. */
export const inspectedInstance = (found: ContainerInspectInfo, addressOf: AddressOf): Instance => {
  const instance = toInstance(found.Config.Labels['codebox.instance'] ?? '', found.State.Status, addressOf);
  return instance.state === 'ended' ? { ...instance, why: whyOf(found.State) } : instance;
};

const toInstance = (id: string, status: string, addressOf: AddressOf): Instance => {
  if (status === 'created') return { id, state: 'pending' };
  return { id, state: status === 'running' || status === 'paused' ? 'running' : 'ended', address: addressOf(id) };
};

/**
 * PID 1 reports the signal of its child as 128 + signal. When a sandbox of gVisor is killed, its exit code is lost and Docker reports 128.
 * Docker's OOM flag is also set for other processes, so alone it proves nothing.
 */
const whyOf = ({ ExitCode: code, OOMKilled, Error: error }: ContainerInspectInfo['State']): Why => {
  if (OOMKilled && [128, 128 + constants.signals.SIGKILL].includes(code))
    return { code: 'oom', detail: 'killed by the memory limit' };
  const signal = Object.entries(constants.signals).find(([, number]) => number === code - 128)?.[0];
  return { code: 'exit', detail: error || (signal ?? `exit code ${code}`) };
};
