import { once } from 'node:events';
import { mkdtempSync } from 'node:fs';
import { open, readFile, rm } from 'node:fs/promises';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { boxUser } from '../../services/gateway/drivers/box-user.ts';
import type { InstanceSpec } from '../../services/gateway/drivers/driver.ts';
import { createLocalDriver } from '../../services/gateway/drivers/local/driver.ts';
import { nextLine } from '../../services/gateway/drivers/parent/line.ts';
import { hasDriver } from './available.ts';
import { callBox, evalInBox, type ServedInstance, waitUntilRunning } from './box-client.ts';
import { processesOf } from './host-census.ts';

const deadlineMs = 60_000;
const deadline = () => AbortSignal.timeout(deadlineMs);
const dataDir = mkdtempSync(join(tmpdir(), 'cbx-'));
const limits = { cpus: 1, memoryMb: 1024, diskMb: 96, pids: 128 };
const forks: unknown[] = [];

const words = async (pid: string) => (await readFile(`/proc/${pid}/cmdline`, 'utf8').catch(() => '')).split('\0');
const isServer = (argv: string[]) => argv.includes('-m') && argv.at(-2) === 'codebox_server';

/** Lists the parents and their forks that are not in a box yet, which are root's. */
const parents = async (): Promise<number[]> => (await allParents()).filter((pid) => !others.has(pid));

/** Parents that drivers of earlier test files have left running. */
const others = new Set<number>();
beforeAll(async () => {
  for (const pid of await allParents()) others.add(pid);
});

const allParents = async (): Promise<number[]> => {
  const found: number[] = [];
  for (const pid of await processesOf(0)) {
    const ours = (await readFile(`/proc/${pid}/environ`, 'utf8').catch(() => '')).includes('CODEBOX_PARENT=1');
    if (ours && isServer(await words(pid)) && (await descends(pid))) found.push(Number(pid));
  }
  return found;
};

const parentOf = async (pid: string) =>
  (await readFile(`/proc/${pid}/stat`, 'utf8').catch(() => '')).split(') ').at(-1)?.split(' ')[1] ?? '0';

/** Whether a process was started by this one, or has lost its parent. */
const descends = async (pid: string): Promise<boolean> => {
  for (let above = await parentOf(pid); ; above = await parentOf(above)) {
    if (Number(above) === process.pid) return true;
    if (Number(above) <= 1) return orphans.has(Number(pid));
  }
};
const orphans = new Set<number>();

const until = async (holds: () => Promise<boolean>) => {
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

interface KernelFacts {
  draws: unknown[];
  modules: string[];
  path: string[];
  forked: boolean;
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
    except PermissionError:
        return True
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

let count = 0;
const create = async (driver: Awaited<ReturnType<typeof createLocalDriver>>, more: Partial<InstanceSpec> = {}) => {
  count += 1;
  const [id, token] = [`parent-${process.pid}-${count}`, `token-of-box-${count}-${'x'.repeat(20)}`];
  const spec = { id, token, image: '', limits, network: 'none' as const, ...more };
  const box = await waitUntilRunning(driver, await driver.create(spec, deadline()), deadlineMs);
  const served = { ...box, token };
  await until(async () => (await callBox(served, 'GET', '/codebox/health', undefined, token).catch(() => '')) !== '');
  return served;
};
type Box = ServedInstance & { token: string };

const serverOf = async ({ id }: Box): Promise<string> => {
  for (const pid of await processesOf(boxUser(id))) if (isServer(await words(pid))) return pid;
  throw new Error('the box has no server');
};

/** Returns what a parent has to be told for a fork that enters this box. */
const entryOf = async ({ id }: Box): Promise<string> => {
  const stat = await readFile(`${dataDir}/local/instances/${id}/init`, 'utf8');
  const [init, start] = [Number.parseInt(stat, 10), stat.split(') ').at(-1)?.split(' ')[19]];
  return `${JSON.stringify({ init, start, uid: boxUser(id), groups: [], limits: {} })}\n`;
};

const connectTo = (parent: number) => {
  const connection = connect(`/proc/${parent}/root/run/parent/socket`).setEncoding('utf8');
  connection.on('error', () => {});
  return connection;
};

const inKernel = async ({ token, ...box }: Box, code: string): Promise<string> => {
  count += 1;
  const text = await callBox(
    box,
    'PUT',
    `/codebox/executions/run-${count}`,
    { code, language: 'python', timeoutMs: 60_000 },
    token,
  );
  return text
    .split('\n')
    .filter(Boolean)
    .map((line) => JSON.parse(line))
    .filter((event) => event.type === 'stdout')
    .map((event) => event.text)
    .join('');
};
const factsOf = async (box: Box): Promise<KernelFacts> => JSON.parse(await inKernel(box, kernelFacts));

/** Whether the writable memory of a process contains one of these texts. */
const holds = async (pid: string, texts: readonly string[]): Promise<string[]> => {
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

if (hasDriver('local') && process.getuid?.() === 0) {
  const driver = await createLocalDriver({
    dataDir,
    deployment: `parent-${process.pid}`,
    onFork: (failure) => forks.push(failure),
    forkDeadlines: { forkMs: 4000, closeMs: 1000 },
  });
  const end = ({ id }: Box) => driver.destroy(id, deadline());

  afterEach(() => {
    forks.length = 0;
  });
  afterAll(async () => {
    for (const { id } of await driver.list(deadline())) await driver.destroy(id, deadline());
    await rm(dataDir, { recursive: true, force: true });
  });

  describe('a box whose server is forked', () => {
    test('has nothing of the parent and nothing of another box', async () => {
      const [one, other] = [await create(driver), await create(driver)];
      expect(forks).toEqual([undefined, undefined]);
      const seen = await evalInBoxOf<Record<string, unknown>>(other, serverFacts);
      expect(seen).toMatchObject({ folders: [], missing: [], threads: 1, places: ['/mnt/data', '/'] });
      expect(seen.above).toEqual(Array(6).fill(true));
      expect(seen.sockets).toBeLessThan(20);
      expect((seen.environment as string[]).join(' ')).not.toMatch(/TOKEN|INSTANCE|DATABASE_URL|DATA_DIR|npm_package/);
      const [parent = 0] = await parents();
      const secrets = [one.token, one.id, dataDir];
      expect(await holds(await serverOf(one), secrets)).toContain(one.token);
      expect(await holds(await serverOf(other), secrets)).toEqual([]);
      expect(await holds(String(parent), [...secrets, other.token, other.id])).toEqual([]);
      const drawn = [await factsOf(one), await factsOf(other)];
      expect(drawn.map(({ forked }) => forked)).toEqual([true, true]);
      const [mine = [], theirs = []] = drawn.map(({ draws }) => draws);
      for (const [n, value] of mine.entries()) expect(value).not.toBe(theirs[n]);
      await Promise.all([end(one), end(other)]);
    });

    test('has kernels with the modules and the paths of one with a server of its own', async () => {
      const [forked, own] = [await create(driver), await create(driver, { parent: false })];
      expect(forks).toEqual([undefined]);
      await callBox(own, 'POST', '/codebox/warm', { languages: ['python'] }, own.token);
      const [is, expected] = [await factsOf(forked), await factsOf(own)];
      expect(is.path).toEqual(expected.path);
      const added = is.modules.filter((name) => !expected.modules.includes(name));
      expect(
        added.filter((name) => /^(jupyter_server|tornado\.web|jinja2|requests|codebox_server\.app)/.test(name)),
      ).toEqual([]);
      expect(added.length).toBeLessThan(200);
      await Promise.all([end(forked), end(own)]);
    });

    test('goes on without the parent, of which another one is started', async () => {
      const before = await create(driver);
      const [parent = 0] = await parents();
      process.kill(parent, 'SIGKILL');
      await until(async () => (await parents()).length === 0);
      expect(await inKernel(before, 'print(1 + 1)')).toBe('2\n');
      const after = await create(driver);
      expect(forks).toEqual([undefined, undefined]);
      expect(await parents()).not.toContain(parent);
      await Promise.all([end(before), end(after)]);
    });
  });

  describe('a fork that does not succeed', () => {
    test('is replaced by a server that the box starts itself', async () => {
      await end(await create(driver));
      const [parent = 0] = await parents();
      process.kill(parent, 'SIGSTOP');
      const creating = create(driver);
      await sleep(1000);
      process.kill(parent, 'SIGKILL');
      const box = await creating;
      expect(forks).toEqual([undefined, expect.any(Error)]);
      expect(await inKernel(box, 'print(1 + 1)')).toBe('2\n');
      await end(box);
    });

    test('leaves nothing behind, also when the parent is killed meanwhile', async () => {
      await end(await create(driver));
      const [parent = 0] = await parents();
      const connection = connectTo(parent);
      await until(async () => (await parents()).length === 2);
      for (const pid of await parents()) if (pid !== parent) orphans.add(pid);
      process.kill(parent, 'SIGKILL');
      await until(async () => !(await parents()).includes(parent));
      expect(await parents()).toEqual([...orphans]);
      connection.destroy();
      await until(async () => (await parents()).length === 0);
    });

    test('of a process that is not the first one of a box is refused', async () => {
      await end(await create(driver));
      const [parent = 0] = await parents();
      const start = (await readFile('/proc/self/stat', 'utf8')).split(') ').at(-1)?.split(' ')[19];
      for (const [wanted, reason] of [
        [{ init: process.pid, start }, /namespace of its own/],
        [{ init: process.pid, start: '1' }, /has ended/],
      ] as const) {
        const connection = connectTo(parent);
        connection.write(`${JSON.stringify({ ...wanted, uid: 1, groups: [], limits: {} })}\n`);
        const [reply] = await connection.toArray();
        expect(reply).toMatch(reason);
      }
      await until(async () => (await parents()).length === 1);
    });

    test('ends a parent that hangs before code of the box runs, and the next box gets another one', async () => {
      await end(await create(driver));
      const [parent = 0] = await parents();
      process.kill(parent, 'SIGSTOP');
      const box = await create(driver);
      // Otherwise it would still hold the request.
      expect(await parents()).toEqual([]);
      const next = await create(driver);
      expect(forks).toEqual([undefined, expect.any(Error), undefined]);
      await Promise.all([end(box), end(next)]);
    });

    test('enters no box after the gateway has given up', async () => {
      const box = await create(driver);
      const [parent = 0] = await parents();
      process.kill(parent, 'SIGSTOP');
      const connection = connectTo(parent).end(await entryOf(box));
      await once(connection, 'finish');
      process.kill(parent, 'SIGCONT');
      expect((await connection.toArray()).join('')).toMatch(/^ConnectionError/);
      await end(box);
    });

    test('uses no descriptors of a box that has a server of its own', async () => {
      await end(await create(driver));
      const box = await create(driver, { parent: false });
      const [parent = 0] = await parents();
      const connection = connectTo(parent);
      connection.write(await entryOf(box));
      expect((await connection.toArray()).join('')).toMatch(/no process that waits for a server/);
      await end(box);
    });

    test.each([
      [{}, /CODEBOX_INSTANCE is missing/],
      [{ CODEBOX_INSTANCE: 'i', CODEBOX_TOKEN: 't', CODEBOX_ROOT: '/nowhere' }, /Traceback[\s\S]*\/nowhere/],
    ])('tells the log of the box why its server has ended: %s', async (environment, reason) => {
      const box = await create(driver);
      const [parent = 0] = await parents();
      const connection = connectTo(parent);
      connection.write(await entryOf(box));
      expect(await nextLine(connection, deadline())).toBe('ready');
      connection.end(`${JSON.stringify({ environment })}\n`);
      const log = box.address.replace(/^unix:(.*)\/run\/box.sock$/, '$1/log');
      await until(async () => reason.test(await readFile(log, 'utf8')));
      await end(box);
    });
  });
}

const evalInBoxOf = <T>({ token, ...box }: Box, code: string): Promise<T> => evalInBox<T>(box, code, token);
