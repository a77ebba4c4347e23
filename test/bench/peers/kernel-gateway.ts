import { spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { pythonClients } from '../../dialects/clients.ts';
import { freePort } from '../../free-port.ts';
import { until } from '../deadline.ts';
import { owned } from '../owned.ts';
import { proportionalMiB } from '../process-memory.ts';
import { endChild } from '../program.ts';
import { openKernels, runInKernel } from '../stock-jupyter.ts';
import { importsAndResult } from '../stock-kernels.ts';
import { type Product, type Sandbox, withSandboxes } from './product.ts';

const startMs = 60_000;

/** Jupyter's own versions are those of a box. */
const packages = (versions: ReadonlyMap<string, string>): string[] => [
  'jupyter_kernel_gateway==3.0.1',
  ...['ipykernel', 'jupyter-client', 'jupyter-server', 'tornado', 'pyzmq', 'numpy', 'pandas', 'matplotlib'].map(
    (name) => `${name}==${versions.get(name)}`,
  ),
];

/** Installs and starts a Jupyter Kernel Gateway on this host. `versions` are those of the packages in a box. */
export const startKernelGateway = async (
  versions: ReadonlyMap<string, string>,
): Promise<{ product: Product } & AsyncDisposable> => {
  const python = await pythonClients(...packages(versions));
  await using stack = new AsyncDisposableStack();
  const folder = await mkdtemp('/tmp/codebox-bench-kernels-');
  stack.defer(() => rm(folder, { recursive: true, force: true, maxRetries: 5 }));
  const [port, token] = [await freePort(), randomBytes(16).toString('hex')];
  const child = spawn(
    python,
    [
      ...['-m', 'kernel_gateway', '--KernelGatewayApp.ip=127.0.0.1', `--KernelGatewayApp.port=${port}`],
      ...['--KernelGatewayApp.port_retries=0', `--KernelGatewayApp.auth_token=${token}`],
      ...['--JupyterWebsocketPersonality.list_kernels=True'],
    ],
    // Neither settings nor an interpreter of the user are used.
    {
      cwd: folder,
      stdio: 'ignore',
      env: { PATH: process.env.PATH, HOME: folder, LANG: 'C.UTF-8' },
    },
  );
  stack.defer(() => endChild(child, 10_000));
  const url = `http://127.0.0.1:${port}`;
  const responds = async (): Promise<true | undefined> => {
    if (child.exitCode !== null) throw new Error(`the Jupyter Kernel Gateway ended with ${child.exitCode}`);
    const response = await fetch(`${url}/api?token=${token}`).catch(() => undefined);
    await response?.body?.cancel();
    return response?.ok ? true : undefined;
  };
  await until('the Jupyter Kernel Gateway', responds, { withinMs: startMs });
  const { startNew } = stack.use(openKernels(url, token));
  const create = async (): Promise<Sandbox & { run: (code: string) => Promise<string | undefined> }> => {
    const kernel = await startNew();
    const run = async (code: string) => (await runInKernel(kernel, code)).text;
    return {
      run,
      onePlusOne: async () => (await run('1+1')) === '2',
      [Symbol.asyncDispose]: () => kernel.shutdown(),
    };
  };
  const product: Product = {
    name: 'Jupyter Kernel Gateway',
    note: 'kernels that are processes of this host, without isolation, limits, a disk or files, through a WebSocket',
    kind: 'peer',
    ready: async () => {},
    create,
    idle: (count) =>
      withSandboxes(count, create, async (sandboxes) => {
        const pids = await Promise.all(sandboxes.map(({ run }) => run('import os\nos.getpid()')));
        const measureAll = () => Promise.all(pids.map((pid) => proportionalMiB(Number(pid))));
        const fresh = await measureAll();
        for (const { run } of sandboxes) await run(importsAndResult);
        return [
          { state: 'with a Python kernel', mib: fresh },
          { state: 'with numpy, pandas, matplotlib', mib: await measureAll() },
        ];
      }),
  };
  return { product, ...owned(stack) };
};
