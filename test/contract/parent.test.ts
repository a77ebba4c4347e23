import { once } from 'node:events';
import { mkdtempSync } from 'node:fs';
import { readFile, rm } from 'node:fs/promises';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { boxUser } from '../../services/gateway/drivers/box-user.ts';
import { createLocalDriver } from '../../services/gateway/drivers/local/driver.ts';
import { nextLine } from '../../services/gateway/drivers/parent/line.ts';
import { hasDriver } from './available.ts';
import { callBox } from './box-client.ts';
import { processesOf } from './host-census.ts';
import { createForkedBoxes, deadline, type ForkedBox, holds, isServer, littleMemory, until } from './parent-fixture.ts';

const dataDir = mkdtempSync(join(tmpdir(), 'cbx-'));
const forks: unknown[] = [];

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

if (hasDriver('local') && process.getuid?.() === 0) {
  const driver = await createLocalDriver({
    dataDir,
    deployment: `parent-${process.pid}`,
    onFork: (failure) => forks.push(failure),
    forkDeadlines: { forkMs: 4000, closeMs: 1000 },
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

    test('goes on without the parent, of which another one is started', async () => {
      const before = await create();
      const [parent = 0] = await parents();
      process.kill(parent, 'SIGKILL');
      await until(async () => (await parents()).length === 0);
      expect(await inKernel(before, 'print(1 + 1)')).toBe('2\n');
      const after = await create();
      expect(forks).toEqual([undefined, undefined]);
      expect(await parents()).not.toContain(parent);
      await Promise.all([end(before), end(after)]);
    });
  });

  describe('a fork that does not succeed', () => {
    test('is replaced by a server that the box starts itself', async () => {
      await end(await create());
      const [parent = 0] = await parents();
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
      await end(await create());
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
      await end(await create());
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
      await end(await create());
      const [parent = 0] = await parents();
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
      const [parent = 0] = await parents();
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
      const box = await create();
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
