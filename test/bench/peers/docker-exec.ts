import { randomBytes } from 'node:crypto';
import { containerFootprint, containerPids } from '../instances.ts';
import { mustRun } from '../program.ts';
import { type Product, type Sandbox, withSandboxes } from './product.ts';

const runMs = 120_000;

/** Containers of the box image in which `docker exec` starts a Python for each run. The containers have `label`. */
export const dockerExec = (image: string, label: string): Product => {
  const create = async (): Promise<Sandbox & { id: string }> => {
    const limits = ['--network', 'none', '--cpus', '1', '--memory', '1g', '--user', '1000:1000'];
    const id = randomBytes(8).toString('hex');
    const command = [...limits, '--label', `${label}=${id}`, '--entrypoint', 'tini', image, '--', 'sleep', 'infinity'];
    await mustRun(['docker', 'run', '--detach', '--name', `codebox-bench-${id}`, ...command], runMs);
    return {
      id,
      onePlusOne: async () =>
        (await mustRun(['docker', 'exec', `codebox-bench-${id}`, 'python', '-c', 'print(1+1)'], runMs)) === '2',
      [Symbol.asyncDispose]: async () =>
        void (await mustRun(['docker', 'rm', '--force', `codebox-bench-${id}`], runMs)),
    };
  };
  return {
    name: '`docker exec` of python',
    note: 'containers of the box image that sleep; every run starts an interpreter, so no variables are kept',
    kind: 'peer',
    ready: async () => {},
    create,
    idle: (count) =>
      withSandboxes(count, create, async (sandboxes) => {
        const pids = await containerPids(
          label,
          sandboxes.map(({ id }) => id),
        );
        const mib = (await Promise.all(pids.map(containerFootprint))).map(({ share }) => share);
        return [{ state: 'without an interpreter', mib }];
      }),
  };
};
