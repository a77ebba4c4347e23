import { open, readFile } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import { boxUser } from '../../services/gateway/drivers/box-user.ts';
import type { Driver, InstanceSpec } from '../../services/gateway/drivers/driver.ts';
import type { ForkDeadlines } from '../../services/gateway/drivers/parent/parents.ts';
import { callBox, evalInBox, type ServedInstance, waitUntilRunning } from './box-client.ts';
import { processesOf } from './host-census.ts';

const deadlineMs = 60_000;
export const deadline = () => AbortSignal.timeout(deadlineMs);
/** Beside other tests a parent takes long to start. A fork that fails ends soon. */
export const forkDeadlines: ForkDeadlines = { startWaitMs: 30_000, forkMs: 10_000, closeMs: 1000 };
const limits = { cpus: 1, memoryMb: 1024, diskMb: 96, pids: 128 };
/** With so little memory a box has no fork server of its own. */
export const littleMemory = { ...limits, memoryMb: 320 };

const words = async (pid: string) => (await readFile(`/proc/${pid}/cmdline`, 'utf8').catch(() => '')).split('\0');

/** Whether a process runs a box server, or a parent of some. */
export const isServer = async (pid: string): Promise<boolean> => {
  const argv = await words(pid);
  return argv.includes('-m') && argv.at(-2) === 'codebox_server';
};

export const until = async (holds: () => Promise<boolean>) => {
  const end = performance.now() + deadlineMs;
  while (!(await holds())) {
    if (performance.now() > end) throw new Error('it does not become true');
    await sleep(20);
  }
};

/** Prints what a Python kernel draws from every generator, and the modules that it has loaded. */
const kernelFacts = `
import json, os, random, secrets, ssl, sys, tempfile, uuid
import numpy as np
names = sorted(name for name, module in sys.modules.items() if module is not None)
draws = [random.random(), float(np.random.rand()), float(np.random.default_rng().random()), str(uuid.uuid4()), str(uuid.uuid1())]
draws += [secrets.token_hex(8), ssl.RAND_bytes(8).hex(), tempfile.mktemp()]
print(json.dumps({"draws": draws, "modules": names, "path": sys.path, "forked": "fork-server" in open("/proc/self/cmdline").read()}))
`;

export interface KernelFacts {
  draws: unknown[];
  modules: string[];
  path: string[];
  forked: boolean;
}

/** What the user of a box sees of its server. */
export interface ServerFacts {
  environment: string[];
  folders: string[];
  missing: string[];
  above: boolean[];
  sockets: number;
  threads: number;
  places: string[];
}

/** Prints what the user of a box sees of its server, which is the process before this one's. */
const serverFacts = `
import json, os, sys
server = next(pid for pid in os.listdir("/proc") if pid.isdigit() and b"\\0codebox_server\\0" in open(f"/proc/{pid}/cmdline", "rb").read())
environment = [entry.split("=")[0] for entry in open(f"/proc/{server}/environ").read().split("\\0") if entry]
links = [os.readlink(f"/proc/{server}/fd/{fd}") for fd in os.listdir(f"/proc/{server}/fd")]
maps = {line.split(None, 5)[5].strip() for line in open(f"/proc/{server}/maps") if len(line.split(None, 5)) > 5}
def denied(path):
    try:
        open(path, "rb").read()
    except OSError as error:
        return isinstance(error, PermissionError)
    return False
print(json.dumps({
    "environment": environment,
    "folders": [link for link in links if os.path.isdir(link)],
    "missing": [path for path in maps if path.startswith("/") and not os.path.exists(path)],
    "above": [denied(f"/proc/{pid}/{name}") for pid in (1, 2) for name in ("environ", "maps", "mem")],
    "sockets": len(open("/proc/net/unix").readlines()) - 1,
    "threads": len(os.listdir(f"/proc/{server}/task")),
    "places": [os.readlink(f"/proc/{server}/{name}") for name in ("cwd", "root")],
}))
`;

export type ForkedBox = ServedInstance & { token: string };

/** Boxes of one driver, whose servers are forked from a parent unless a spec says otherwise. */
export const createForkedBoxes = (driver: Driver, image: string) => {
  let count = 0;

  const inKernel = async ({ token, ...box }: ForkedBox, code: string): Promise<string> => {
    count += 1;
    const body = { code, language: 'python', timeoutMs: 60_000 };
    const text = await callBox(box, 'PUT', `/codebox/executions/run-${count}`, body, token);
    return text
      .split('\n')
      .filter(Boolean)
      .map((line) => JSON.parse(line))
      .filter((event) => event.type === 'stdout')
      .map((event) => event.text)
      .join('');
  };

  return {
    inKernel,
    async create(more: Partial<InstanceSpec> = {}): Promise<ForkedBox> {
      count += 1;
      const [id, token] = [`parent-${process.pid}-${count}`, `token-of-box-${count}-${'x'.repeat(20)}`];
      const spec = { id, token, image, limits, network: 'none' as const, ...more };
      const box = await waitUntilRunning(driver, await driver.create(spec, deadline()), deadlineMs);
      const served = { ...box, token };
      await until(
        async () => (await callBox(served, 'GET', '/codebox/health', undefined, token).catch(() => '')) !== '',
      );
      return served;
    },
    end: ({ id }: ForkedBox) => driver.destroy(id, deadline()),
    async endAll(): Promise<void> {
      for (const { id } of await driver.list(deadline())) await driver.destroy(id, deadline());
    },
    async serverOf({ id }: ForkedBox): Promise<string> {
      for (const pid of await processesOf(boxUser(id))) if (await isServer(pid)) return pid;
      throw new Error('the box has no server');
    },
    factsOf: async (box: ForkedBox): Promise<KernelFacts> => JSON.parse(await inKernel(box, kernelFacts)),
    seenOfServer: ({ token, ...box }: ForkedBox) => evalInBox<ServerFacts>(box, serverFacts, token),
  };
};

/** Returns those of the texts that the writable memory of a process contains. */
export const holds = async (pid: string, texts: readonly string[]): Promise<string[]> => {
  const found = new Set<string>();
  const memory = await open(`/proc/${pid}/mem`);
  for (const line of (await readFile(`/proc/${pid}/maps`, 'utf8')).split('\n')) {
    const [, from = '', to = ''] = /^([0-9a-f]+)-([0-9a-f]+) rw/.exec(line) ?? [];
    if (from === '') continue;
    const [begin, size] = [Number.parseInt(from, 16), Number.parseInt(to, 16) - Number.parseInt(from, 16)];
    const { buffer } = await memory.read(Buffer.alloc(size), 0, size, begin).catch(() => ({ buffer: Buffer.alloc(0) }));
    for (const text of texts) if (buffer.includes(text)) found.add(text);
  }
  await memory.close();
  return [...found];
};
