import { createRequire } from 'node:module';
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
import type { TestSocket } from '../api/websocket.ts';
import { printVersions, pythonClients } from './clients.ts';

export const versions = {
  services: '@jupyterlab/services 7.6.6',
  client: 'jupyter_kernel_client==1.0.2',
  server: 'jupyter_server==2.21.1',
};
/** Code that waits for the file `go`. */
export const untilGo = 'import os, time\nwhile not os.path.exists("go"): time.sleep(0.05)\n';
const pythonPackages = [versions.client, versions.server, 'ipykernel==7.4.0', 'websockets==17.4'];

export const installPython = async (): Promise<string> => {
  const python = await pythonClients(...pythonPackages);
  printVersions('Jupyter', versions);
  return python;
};

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

/** JupyterLab's page would set this option: without it, its client expects no terminals. */
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
      change: (id: string, ask: object) => SessionAPI.updateSession({ ...ask, id } as never, serverSettings),
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
  outputs: { type: string; content: Record<string, unknown>; metadata?: unknown }[];
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
  future.onIOPub = ({ header, content, metadata }) => {
    outputs.push({ type: header.msg_type, content: content as Record<string, unknown>, metadata });
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

/** Sends and reads the messages of Open WebUI in its Jupyter mode. */
export const openWebUi = `
import asyncio, json, os, uuid, urllib.request, websockets
base, token = os.environ["BASE"], os.environ["TOKEN"]
def call(method, path):
    with urllib.request.urlopen(urllib.request.Request(f"{base}{path}?token={token}", method=method)) as response:
        return json.loads(response.read() or b"null")
async def run(code):
    kernel = call("POST", "/api/kernels")["id"]
    url = base.replace("http", "ws") + f"/api/kernels/{kernel}/channels?token={token}"
    out = {"stdout": "", "stderr": "", "result": [], "kernel": kernel}
    async with websockets.connect(url) as ws:
        mine = str(uuid.uuid4())
        await ws.send(json.dumps({
            "header": {"msg_id": mine, "msg_type": "execute_request", "username": "user", "session": str(uuid.uuid4()), "date": "", "version": "5.3"},
            "parent_header": {}, "metadata": {}, "channel": "shell",
            "content": {"code": code, "silent": False, "store_history": True, "user_expressions": {}, "allow_stdin": False, "stop_on_error": True}}))
        while True:
            message = json.loads(await asyncio.wait_for(ws.recv(), 60))
            if message.get("parent_header", {}).get("msg_id") != mine: continue
            kind, content = message.get("msg_type"), message.get("content", {})
            if kind == "stream": out[content["name"]] += content["text"]
            elif kind in ("execute_result", "display_data"): out["result"].append(sorted(content["data"]))
            elif kind == "error": out["stderr"] += "\\n".join(content["traceback"])
            elif kind == "status" and content["execution_state"] == "idle": break
    call("DELETE", f"/api/kernels/{kernel}")
    return out
`;

/** A message of a client. */
export const request = (type: string, id = type, content = {}) => ({
  channel: 'shell',
  header: { msg_id: id, msg_type: type, session: 'mine', username: 'u', date: '', version: '5.3' },
  parent_header: {},
  metadata: {},
  content,
});
/** A request to run code. */
export const executeRequest = (id: string, code: string) =>
  request('execute_request', id, { code, allow_stdin: false });
export const isStream = ({ msg_type }: Record<string, unknown>) => msg_type === 'stream';
export const isReply = ({ msg_type }: Record<string, unknown>) => msg_type === 'execute_reply';

/** The id of the message that a message belongs to. */
export const parentOf = ({ parent_header }: Record<string, unknown>) => (parent_header as { msg_id?: string }).msg_id;

/** The texts and types of messages up to the reply; throws when one does not belong to the cell `one`. */
export const briefOf = ({ messages }: Pick<TestSocket, 'messages'>): string[] =>
  messages.flatMap((message) => {
    if (!('json' in message)) return ['bytes'];
    const { msg_type, content } = message.json as Record<string, Record<string, string>>;
    if (parentOf(message.json) !== 'one') throw new Error(`a message belongs to ${parentOf(message.json)}`);
    const isIdle = content?.execution_state === 'idle';
    return isIdle ? [] : [String(isStream(message.json) ? content?.text : msg_type)];
  });
