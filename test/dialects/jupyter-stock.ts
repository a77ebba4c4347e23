import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { eventually } from '../api/harness.ts';
import { freePort } from '../free-port.ts';
import type { JupyterPlace } from './jupyter-clients.ts';

/**
 * Starts an unchanged Jupyter Server of the same version as in boxes, without its limit on the rate of output. With `behind`, its kernels are
 * those of that server: its gateway mode. JupyterLab is such a server with a page.
 */
export const startStock = async (
  python: string,
  { behind, module = 'jupyter_server' }: { behind?: JupyterPlace; module?: 'jupyter_server' | 'jupyterlab' } = {},
): Promise<JupyterPlace & { dispose: () => Promise<void> }> => {
  const [port, token] = [await freePort(), 'stock'];
  const folder = await mkdtemp(join(tmpdir(), 'codebox-stock-'));
  const options = [`--ServerApp.port=${port}`, '--ServerApp.port_retries=0', `--ServerApp.root_dir=${folder}`];
  if (behind) options.push(`--GatewayClient.url=${behind.url}`, `--GatewayClient.auth_token=${behind.token}`);
  const env = { ...process.env, HOME: folder, PATH: `${dirname(python)}:${process.env.PATH}` };
  const child: ChildProcess = spawn(
    python,
    [
      '-m',
      module,
      '--no-browser',
      '--allow-root',
      '--ServerApp.ip=127.0.0.1',
      `--IdentityProvider.token=${token}`,
      '--ZMQChannelsWebsocketConnection.limit_rate=False',
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

/** A step of a handshake: a method, a path below `/api`, and a body. `{kernel}` and `{session}` stand for the ids of earlier responses. */
type Step = [method: string, path: string, body?: object];

const notebook = (kernel: object = { name: 'python3' }) => ({
  path: 'n.ipynb',
  type: 'notebook',
  name: 'n.ipynb',
  kernel,
});

/** What JupyterLab 4 sends when it opens with a notebook, and when the notebook is closed. */
export const fromLab: Step[] = [
  ['GET', '/me'],
  ['GET', '/kernelspecs'],
  ['GET', '/terminals'],
  ['GET', '/kernels'],
  ['GET', '/sessions'],
  ['POST', '/contents', { type: 'notebook' }],
  ['GET', '/contents/Untitled.ipynb?type=notebook&content=1'],
  ['GET', '/contents/Untitled.ipynb/checkpoints'],
  ['PATCH', '/contents/Untitled.ipynb', { path: 'n.ipynb' }],
  ['POST', '/sessions', notebook()],
  ['GET', '/kernels/{kernel}'],
  ['GET', '/sessions/{session}'],
  ['PATCH', '/sessions/{session}', { ...notebook(), path: 'm.ipynb', name: 'm.ipynb' }],
  ['GET', '/contents?content=1'],
  ['POST', '/contents/n.ipynb/checkpoints'],
  ['DELETE', '/sessions/{session}'],
  ['DELETE', '/contents/n.ipynb'],
];

/** What the Jupyter extension of VS Code sends for a remote server: it probes the server, then starts a kernel of a notebook. */
export const fromCode: Step[] = [
  ['GET', ''],
  ['GET', '/status'],
  ['GET', '/kernelspecs'],
  ['GET', '/kernelspecs/python3'],
  ['GET', '/kernelspecs/cobol'],
  ['GET', '/sessions'],
  ['GET', '/kernels'],
  ['POST', '/sessions', notebook()],
  ['POST', '/sessions', notebook()],
  ['POST', '/kernels/{kernel}/interrupt'],
  ['POST', '/kernels/{kernel}/restart'],
  ['GET', '/kernels/{kernel}'],
  ['GET', '/sessions'],
  ['DELETE', '/sessions/{session}'],
  ['GET', '/sessions/{session}'],
];

/** Values that are compared in part: a stock server has extras, the kernel of Python only, and hides files. */
const fewer: Record<string, (value: unknown) => unknown> = {
  permissions: () => 'fewer',
  metadata: () => 'fewer',
  content: (value) => (Array.isArray(value) ? value.filter(({ name }) => !name.startsWith('.')) : value),
  kernelspecs: (value) => ({ python3: (value as Record<string, unknown>).python3 }),
};

/** Names whose values differ from server to server, from request to request, or with the folder of the server. */
const varying = new Set([
  'last_activity',
  'started',
  'created',
  'last_modified',
  'connections',
  'argv',
  'env',
  'resources',
  'execution_state',
  'username',
  'identity',
  'hash',
  'hash_algorithm',
  'kernels',
  'reason',
  'traceback',
]);

/** A value with its names, but without values that vary; ids are numbered. */
const settled = (value: unknown, ids: Map<string, string>): unknown => {
  if (Array.isArray(value)) return value.map((item) => settled(item, ids));
  if (typeof value === 'string')
    return value.replaceAll(/[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}/g, (id) => {
      if (!ids.has(id)) ids.set(id, `id ${ids.size}`);
      return ids.get(id) ?? '';
    });
  if (typeof value !== 'object' || value === null) return value;
  const fields = Object.entries(value).sort(([one], [other]) => (one < other ? -1 : 1));
  const shown = (name: string, field: unknown) =>
    varying.has(name) ? 'varies' : settled(fewer[name]?.(field) ?? field, ids);
  return Object.fromEntries(fields.map(([name, field]) => [name, shown(name, field)]));
};

/** Makes the requests of a handshake, and resolves with the status and the values of each response. */
export const handshake = async ({ url, token }: JupyterPlace, steps: readonly Step[]): Promise<unknown[]> => {
  const seen: unknown[] = [];
  const ids = new Map<string, string>();
  let [kernel, session] = ['', ''];
  for (const [method, path, body] of steps) {
    const filled = path.replace('{kernel}', kernel).replace('{session}', session);
    const response = await fetch(`${url}/api${filled}`, {
      method,
      headers: { authorization: `token ${token}`, 'content-type': 'application/json' },
      ...(body && { body: JSON.stringify(body) }),
    });
    const text = await response.text();
    const value = text === '' ? undefined : JSON.parse(text);
    if (path === '/sessions' && method === 'POST') [kernel, session] = [value.kernel.id, value.id];
    seen.push([method, path, response.status, settled(value, ids)]);
  }
  return seen;
};
