import { randomBytes } from 'node:crypto';
import { type Kernel, KernelManager, type KernelMessage, ServerConnection } from '@jupyterlab/services';
import { freePort } from '../free-port.ts';
import { until } from './deadline.ts';
import { owned } from './owned.ts';
import { mustRun, runProgram } from './program.ts';

export interface StockJupyter extends AsyncDisposable {
  url: string;
  token: string;
  /** The host's process id of the container. */
  pid: number;
  /** Starts a kernel and connects to it with Jupyter's own client over a WebSocket. */
  startKernel(): Promise<Kernel.IKernelConnection>;
}

const startMs = 60_000;

/**
 * Starts the alternative to CodeBox for comparison: an unchanged `jupyter server` of the same version, in a container of the same
 * image with the CPU and memory of a box, listening on TCP on the loopback interface.
 */
export const startStockJupyter = async (image: string): Promise<StockJupyter> => {
  await using stack = new AsyncDisposableStack();
  const [port, token] = [await freePort(), randomBytes(16).toString('hex')];
  const name = `codebox-bench-jupyter-${port}`;
  stack.defer(async () => void (await runProgram(['docker', 'rm', '--force', name])));
  await mustRun([
    ...['docker', 'run', '--detach', '--name', name, '--network', 'host', '--user', '1000:1000'],
    ...['--cpus', '1', '--memory', '1g', '--env', 'HOME=/tmp/home', '--workdir', '/tmp', '--entrypoint', 'sh', image],
    '-c',
    `mkdir -p /tmp/home /tmp/work && exec jupyter server --no-browser --ServerApp.ip=127.0.0.1 --ServerApp.port=${port} \
      --ServerApp.port_retries=0 --ServerApp.root_dir=/tmp/work --IdentityProvider.token=${token}`,
  ]);
  const url = `http://127.0.0.1:${port}`;
  await until('the stock Jupyter Server', () => responds(`${url}/api?token=${token}`), { withinMs: startMs });
  const pid = Number(await mustRun(['docker', 'inspect', '--format', '{{.State.Pid}}', name]));
  const { startKernel } = stack.use(openKernels(url, token));
  return { url, token, pid, startKernel, ...owned(stack) };
};

export interface Kernels extends Pick<StockJupyter, 'startKernel'>, AsyncDisposable {
  /** Starts a kernel and resolves once the server has: code that is sent then waits until the kernel is connected. */
  startNew(): Promise<Kernel.IKernelConnection>;
}

/** Kernels of a Jupyter Server, used with Jupyter's own client. Disposing it ends them. */
export const openKernels = (url: string, token: string): Kernels => {
  const wsUrl = `${url.replace('http', 'ws')}/`;
  const serverSettings = ServerConnection.makeSettings({ baseUrl: `${url}/`, wsUrl, token });
  const kernels = new KernelManager({ serverSettings });
  const startNew = () => kernels.startNew({ name: 'python3' });
  return {
    startNew,
    async startKernel() {
      const kernel = await startNew();
      await kernel.info;
      await kernel.requestExecute({ code: 'pass' }).done;
      return kernel;
    },
    async [Symbol.asyncDispose]() {
      await kernels.shutdownAll();
      kernels.dispose();
    },
  };
};

const responds = async (url: string): Promise<true | undefined> => {
  try {
    const response = await fetch(url, { signal: AbortSignal.timeout(5000) });
    await response.body?.cancel();
    return response.ok ? true : undefined;
  } catch {
    // It does not listen yet.
    return undefined;
  }
};

/** Runs code until the reply and `idle` have arrived. Resolves with the text of its result and the first output with its time. */
export const runInKernel = async (
  kernel: Kernel.IKernelConnection,
  code: string,
): Promise<{ text: string | undefined; printed: { at: number; text: string } | undefined }> => {
  const future = kernel.requestExecute({ code });
  let text: string | undefined;
  let printed: { at: number; text: string } | undefined;
  future.onIOPub = ({ header, content }: KernelMessage.IIOPubMessage) => {
    if (header.msg_type === 'execute_result') {
      text = String((content as KernelMessage.IExecuteResultMsg['content']).data['text/plain']);
    }
    if (header.msg_type === 'stream') {
      printed ??= { at: performance.now(), text: (content as KernelMessage.IStreamMsg['content']).text };
    }
  };
  await future.done;
  return { text, printed };
};
