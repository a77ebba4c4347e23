import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdtempSync } from 'node:fs';
import { readdir, readFile, rm } from 'node:fs/promises';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, afterEach, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { boxUser } from '../../services/gateway/drivers/box-user.ts';
import { createLocalDriver } from '../../services/gateway/drivers/local/driver.ts';
import { nextLine } from '../../services/gateway/drivers/parent/line.ts';
import { hasDriver } from './available.ts';
import { callBox } from './box-client.ts';
import { processesOf } from './host-census.ts';
import {
  createForkedBoxes,
  deadline,
  type ForkedBox,
  forkDeadlines,
  holds,
  isServer,
  littleMemory,
  until,
} from './parent-fixture.ts';

const dataDir = mkdtempSync(join(tmpdir(), 'cbx-'));
const forks: unknown[] = [];
/** A parent that no gateway uses ends after 10 seconds. */
const idleMs = 12_000;

/** Lists the parents and their forks that are not in a box yet, which are root's. */
const parents = async (): Promise<number[]> => (await allParents()).filter((pid) => !others.has(pid));

/** Returns the one parent that there is, without forks that are not in a box yet. */
const onlyParent = async (): Promise<number> => {
  const [parent, ...more] = await parents();
  if (parent === undefined || more.length > 0)
    throw new Error(`there are other parents than one: ${[parent, ...more]}`);
  return parent;
};

/** Parents that drivers of earlier test files have left running. */
const others = new Set<number>();
beforeAll(async () => {
  for (const pid of await allParents()) others.add(pid);
});

const allParents = async (): Promise<number[]> => {
  const found: number[] = [];
  for (const pid of await processesOf(0)) {
    const ours = (await readFile(`/proc/${pid}/environ`, 'utf8').catch(() => '')).includes('CODEBOX_PARENT=1');
    if (ours && (await isServer(pid)) && (await descends(pid))) found.push(Number(pid));
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

/** Returns what a parent has to be told for a fork that enters this box. */
const entryOf = async ({ id }: ForkedBox): Promise<string> => {
  const stat = await readFile(`${dataDir}/local/instances/${id}/init`, 'utf8');
  const [init, start] = [Number.parseInt(stat, 10), stat.split(') ').at(-1)?.split(' ')[19]];
  return `${JSON.stringify({ init, start, uid: boxUser(id), groups: [], limits: {} })}\n`;
};

const connectTo = (parent: number) => {
  const connection = connect(`/proc/${parent}/root/run/parent/socket`).setEncoding('utf8');
  connection.on('error', () => {});
  return connection;
};

/** Lists the processes of a box that fork kernels, and the kernels that they have forked. */
const forkServersOf = async ({ id }: ForkedBox): Promise<string[]> => {
  const found: string[] = [];
  for (const pid of await processesOf(boxUser(id)))
    if ((await readFile(`/proc/${pid}/cmdline`, 'utf8').catch(() => '')).includes('fork-server')) found.push(pid);
  return found.sort();
};

/** Creates an instance with a driver of its own in a process of its own, which then waits. */
const startGateway = async (name: string, parentsFolder: string): Promise<ChildProcess> => {
  const options = { dataDir: join(dataDir, name), deployment: `${name}-${process.pid}`, parentsFolder, forkDeadlines };
  const limits = { ...littleMemory, diskMb: 64 };
  const spec = { id: `${name}-${process.pid}`, token: 'x'.repeat(40), image: '', limits, network: 'none' };
  const script = `
import { createLocalDriver } from ${JSON.stringify(resolve('services/gateway/drivers/local/driver.ts'))};
const onFork = (failure) => failure && console.log(failure);
const driver = await createLocalDriver({ ...${JSON.stringify(options)}, onFork });
await driver.create(${JSON.stringify(spec)}, AbortSignal.timeout(60_000));
console.log('created');
process.once('SIGTERM', () => driver.destroy('${spec.id}', AbortSignal.timeout(60_000)).then(() => process.exit()));
setInterval(() => {}, 1000);
`;
  const gateway = spawn(process.execPath, ['--input-type=module', '-e', script], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  onTestFinished(() => void gateway.kill('SIGKILL'));
  expect(String(await once(gateway.stdout, 'data'))).toBe('created\n');
  return gateway;
};

if (hasDriver('local') && process.getuid?.() === 0) {
  const driver = await createLocalDriver({
    dataDir,
    deployment: `parent-${process.pid}`,
    parentsFolder: join(dataDir, 'parents'),
    onFork: (failure) => forks.push(failure),
    forkDeadlines,
  });
  const { create, end, endAll, inKernel, factsOf, seenOfServer, serverOf } = createForkedBoxes(driver, '');

  afterEach(() => {
    forks.length = 0;
  });
  afterAll(async () => {
    await endAll();
    await rm(dataDir, { recursive: true, force: true });
  });

  describe('a box whose server is forked', () => {
    test('has nothing of the parent and nothing of another box', async () => {
      const [one, other] = [await create({ limits: littleMemory }), await create()];
      expect(forks).toEqual([undefined, undefined]);
      const seen = await seenOfServer(other);
      expect(seen).toMatchObject({ folders: [], missing: [], threads: 1, places: ['/mnt/data', '/'] });
      expect(seen.above).toEqual(Array(6).fill(true));
      expect(seen.sockets).toBeLessThan(20);
      expect(seen.environment.join(' ')).not.toMatch(/TOKEN|INSTANCE|DATABASE_URL|DATA_DIR|npm_package/);
      const parent = await onlyParent();
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
      const [forked, own] = [await create(), await create({ parent: false })];
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

    test('has a process for its first kernel, and forks the others, each of which is a child of the server', async () => {
      const box = await create();
      const waiting = await forkServersOf(box);
      expect(waiting).toHaveLength(2);
      const facts =
        'import os; print(os.getpid() == os.getsid(0), open(f"/proc/{os.getppid()}/cmdline").read().split("\\0")[3])';
      expect(await inKernel(box, facts)).toBe('True codebox_server\n');
      expect(await forkServersOf(box)).toEqual(waiting);
      await inKernel(box, 'import os; os.kill(os.getpid(), 9)');
      expect(await inKernel(box, facts)).toBe('True codebox_server\n');
      const left = await forkServersOf(box);
      expect(left).toHaveLength(2);
      expect(left.filter((one) => waiting.includes(one))).toHaveLength(1);
      await end(box);
    });

    test('forks its first kernel as the others when the process for it is killed', async () => {
      const box = await create();
      const waiting = await forkServersOf(box);
      const session = async (pid: string) =>
        (await readFile(`/proc/${pid}/stat`, 'utf8')).split(') ').at(-1)?.split(' ')[3];
      const leads = await Promise.all(waiting.map(async (pid) => (await session(pid)) === pid));
      process.kill(Number(waiting[leads.indexOf(false)]), 'SIGKILL');
      expect(await inKernel(box, 'print("fork-server" in open("/proc/self/cmdline").read())')).toBe('True\n');
      expect(await forkServersOf(box)).toContain(waiting[leads.indexOf(true)]);
      await end(box);
    });

    test('has its first kernel also when all that could become it are killed', async () => {
      const box = await create();
      for (const one of await forkServersOf(box)) process.kill(Number(one), 'SIGKILL');
      expect(await inKernel(box, 'print(1 + 1)')).toBe('2\n');
      await end(box);
    });

    test('goes on without the parent, of which another one is started', async () => {
      const before = await create();
      const parent = await onlyParent();
      process.kill(parent, 'SIGKILL');
      await until(async () => (await parents()).length === 0);
      expect(await inKernel(before, 'print(1 + 1)')).toBe('2\n');
      const after = await create();
      expect(forks).toEqual([undefined, undefined]);
      expect(await parents()).not.toContain(parent);
      await Promise.all([end(before), end(after)]);
    });
  });

  test('a parent serves all gateways of a host, and ends after the last one', async () => {
    const folder = join(dataDir, 'shared');
    const [first, second] = await Promise.all([startGateway('one', folder), startGateway('other', folder)]);
    const [name = ''] = await readdir(folder);
    const parent = await readFile(`${folder}/${name}/process-group`, 'utf8');
    first.kill('SIGTERM');
    await once(first, 'exit');
    await sleep(idleMs);
    expect(await readdir(folder)).toEqual([name]);
    const third = await startGateway('third', folder);
    expect(await readFile(`${folder}/${name}/process-group`, 'utf8')).toBe(parent);
    for (const gateway of [second, third]) {
      gateway.kill('SIGTERM');
      await once(gateway, 'exit');
    }
    await until(async () => !existsSync(`/proc/${parent}`));
    const fourth = await startGateway('fourth', folder);
    expect(await readFile(`${folder}/${name}/process-group`, 'utf8')).not.toBe(parent);
    fourth.kill('SIGTERM');
    await once(fourth, 'exit');
  });

  describe('a fork that does not succeed', () => {
    test('is replaced by a server that the box starts itself', async () => {
      await end(await create());
      const parent = await onlyParent();
      process.kill(parent, 'SIGSTOP');
      const creating = create();
      await sleep(1000);
      process.kill(parent, 'SIGKILL');
      const box = await creating;
      expect(forks).toEqual([undefined, expect.any(Error)]);
      expect(await inKernel(box, 'print(1 + 1)')).toBe('2\n');
      await end(box);
    });

    test('leaves nothing behind, also when the parent is killed meanwhile', async () => {
      const box = await create();
      const parent = await onlyParent();
      const connection = connectTo(parent);
      // Without the end of the line, so that the fork waits for it.
      connection.write((await entryOf(box)).trimEnd());
      await until(async () => (await parents()).length === 2);
      for (const pid of await parents()) if (pid !== parent) orphans.add(pid);
      process.kill(parent, 'SIGKILL');
      await until(async () => !(await parents()).includes(parent));
      expect(await parents()).toEqual([...orphans]);
      connection.destroy();
      await until(async () => (await parents()).length === 0);
      await end(box);
    });

    test('of a process that is not the first one of a box is refused', async () => {
      const box = await create();
      const parent = await onlyParent();
      const entry = await entryOf(box);
      for (const [wanted, reason] of [
        [entry.replace(/\d+/, String(process.pid)), /namespace of its own/],
        [entry.replace(/(?<="start":")\d+/, '1'), /has ended/],
        [entry.replace(/\d+/, String(2 ** 22 + 1)), /^ProcessLookupError/],
        [`x${entry}`, /^ValueError/],
        ['\n', /^ValueError/],
      ] as const) {
        const connection = connectTo(parent);
        connection.write(wanted);
        const [reply] = await connection.toArray();
        expect(reply).toMatch(reason);
      }
      await until(async () => (await parents()).length === 1);
      // A request of which nothing has come keeps no other one waiting.
      const silent = connectTo(parent);
      await once(silent, 'connect');
      await end(await create());
      expect(forks).toEqual([undefined, undefined]);
      silent.destroy();
      await end(box);
    });

    test('ends a parent that hangs before code of the box runs, and the next box gets another one', async () => {
      await end(await create());
      const parent = await onlyParent();
      process.kill(parent, 'SIGSTOP');
      const box = await create();
      // Otherwise it would still hold the request.
      expect(await parents()).toEqual([]);
      const next = await create();
      expect(forks).toEqual([undefined, expect.any(Error), undefined]);
      await Promise.all([end(box), end(next)]);
    });

    test('enters no box after the gateway has given up', async () => {
      const box = await create();
      const parent = await onlyParent();
      process.kill(parent, 'SIGSTOP');
      const connection = connectTo(parent).end(await entryOf(box));
      await once(connection, 'finish');
      process.kill(parent, 'SIGCONT');
      expect((await connection.toArray()).join('')).toMatch(/^ConnectionError/);
      await end(box);
    });

    test('uses no descriptors of a box that has a server of its own', async () => {
      await end(await create());
      const box = await create({ parent: false });
      const parent = await onlyParent();
      const connection = connectTo(parent);
      connection.write(await entryOf(box));
      expect((await connection.toArray()).join('')).toMatch(/no process that waits for a server/);
      await end(box);
    });

    test.each([
      [{}, /CODEBOX_INSTANCE is missing/],
      [{ CODEBOX_INSTANCE: 'i', CODEBOX_TOKEN: 't', CODEBOX_ROOT: '/nowhere' }, /Traceback[\s\S]*\/nowhere/],
    ])('tells the log of the box why its server has ended: %s', async (environment, reason) => {
      const box = await create();
      const parent = await onlyParent();
      const connection = connectTo(parent);
      connection.write(await entryOf(box));
      expect(await nextLine(connection, deadline())).toBe('ready');
      connection.end(`${JSON.stringify({ environment })}\n`);
      const log = box.address.replace(/^unix:(.*)\/run\/box.sock$/, '$1/log');
      await until(async () => reason.test(await readFile(log, 'utf8')));
      await end(box);
    });

    test('for want of the folder of its parent lets the next box find another one', async () => {
      await end(await create());
      await rm(join(dataDir, 'parents'), { recursive: true });
      const [box, next] = [await create(), await create()];
      expect(forks).toEqual([undefined, expect.any(Error), undefined]);
      await Promise.all([end(box), end(next)]);
    });
  });
}
