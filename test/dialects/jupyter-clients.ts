import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import {
  ContentsManager,
  type Kernel,
  KernelManager,
  type KernelMessage,
  KernelSpecAPI,
  ServerConnection,
  SessionAPI,
  TerminalManager,
} from '@jupyterlab/services';
import { eventually } from '../api/harness.ts';
import { freePort } from '../free-port.ts';
import { pythonClients } from './clients.ts';

export const versions = {
  services: '@jupyterlab/services 7.6.6',
  client: 'jupyter_kernel_client==1.0.2',
  server: 'jupyter_server==2.21.1',
};
const pythonPackages = [versions.client, versions.server, 'ipykernel==7.4.0', 'websockets==17.4'];

export const installPython = (): Promise<string> => pythonClients(...pythonPackages);

/** A Jupyter server for clients: its address and a token. */
export interface JupyterPlace {
  url: string;
  token: string;
}

const settingsOf = ({ url, token }: JupyterPlace) =>
  ServerConnection.makeSettings({
    baseUrl: `${url}/`,
    wsUrl: `${url.replace('http', 'ws')}/`,
    token,
    appendToken: true,
  });

/** What JupyterLab's page would set: without it, its client expects no terminals. */
const fromServices = createRequire(createRequire(import.meta.url).resolve('@jupyterlab/services'));
fromServices('@jupyterlab/coreutils').PageConfig.setOption('terminalsAvailable', 'true');

/** A notebook with JupyterLab's own client. */
export const openLab = (place: JupyterPlace) => {
  const serverSettings = settingsOf(place);
  const kernels = new KernelManager({ serverSettings });
  const contents = new ContentsManager({ serverSettings });
  const terminals = new TerminalManager({ serverSettings });
  return {
    kernels,
    contents,
    specs: () => KernelSpecAPI.getSpecs(serverSettings),
    sessions: {
      start: (path: string, kernel = { name: 'python3' }) =>
        SessionAPI.startSession({ path, type: 'notebook', name: path, kernel }, serverSettings),
      list: () => SessionAPI.listRunning(serverSettings),
      end: (id: string) => SessionAPI.shutdownSession(id, serverSettings),
    },
    terminals,
    start: (name = 'python3') => kernels.startNew({ name }),
    dispose: () => {
      kernels.dispose();
      contents.dispose();
      terminals.dispose();
    },
  };
};

export type Lab = ReturnType<typeof openLab>;

type Options = Partial<KernelMessage.IExecuteRequestMsg['content']> & { answer?: string };
export interface CellResult {
  /** The messages of iopub, with their types. */
  outputs: { type: string; content: Record<string, unknown> }[];
  reply: Record<string, unknown>;
}

/** Runs a cell to its end. */
export const runCell = async (
  kernel: Kernel.IKernelConnection,
  code: string,
  { answer, ...options }: Options = {},
): Promise<CellResult> => {
  const future = kernel.requestExecute({ code, allow_stdin: answer !== undefined, ...options });
  const outputs: CellResult['outputs'] = [];
  future.onIOPub = ({ header, content }) => {
    outputs.push({ type: header.msg_type, content: content as Record<string, unknown> });
  };
  future.onStdin = ({ header }) => {
    if (answer !== undefined) kernel.sendInputReply({ value: answer, status: 'ok' }, header as never);
  };
  const { content } = await future.done;
  return { outputs, reply: content as unknown as Record<string, unknown> };
};

/** The text of the streams of a cell. */
export const textOf = ({ outputs }: CellResult): string =>
  outputs.map(({ type, content }) => (type === 'stream' ? String(content.text) : '')).join('');

/** The plain text of the result of a cell. */
export const resultOf = ({ outputs }: CellResult): unknown => {
  const result = outputs.find(({ type }) => type === 'execute_result');
  return (result?.content.data as Record<string, unknown> | undefined)?.['text/plain'];
};

/** Starts an unchanged Jupyter Server of the same version as in boxes. */
export const startStock = async (python: string): Promise<JupyterPlace & { dispose: () => Promise<void> }> => {
  const [port, token] = [await freePort(), 'stock'];
  const folder = await mkdtemp(join(tmpdir(), 'codebox-stock-'));
  const options = [`--ServerApp.port=${port}`, '--ServerApp.port_retries=0', `--ServerApp.root_dir=${folder}`];
  const env = { ...process.env, HOME: folder, PATH: `${dirname(python)}:${process.env.PATH}` };
  const child: ChildProcess = spawn(
    python,
    [
      '-m',
      'jupyter_server',
      '--no-browser',
      '--allow-root',
      '--ServerApp.ip=127.0.0.1',
      `--IdentityProvider.token=${token}`,
      ...options,
    ],
    { env, stdio: 'ignore', cwd: folder },
  );
  const url = `http://127.0.0.1:${port}`;
  const dispose = async () => {
    const ended = once(child, 'exit');
    child.kill('SIGTERM');
    await ended;
    await rm(folder, { recursive: true, force: true });
  };
  try {
    await eventually(() =>
      fetch(`${url}/api`).then(
        ({ ok }) => ok,
        () => false,
      ),
    );
  } catch (error) {
    await dispose();
    throw error;
  }
  return { url, token, dispose };
};
