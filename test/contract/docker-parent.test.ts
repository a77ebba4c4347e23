import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdtempSync } from 'node:fs';
import { readdir, readFile, rm, stat } from 'node:fs/promises';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { ContainerInspectInfo } from 'dockerode';
import { afterAll, afterEach, describe, expect, onTestFinished, test } from 'vitest';
import { boxUser } from '../../services/gateway/drivers/box-user.ts';
import { createDaemon } from '../../services/gateway/drivers/docker/daemon/daemon.ts';
import { createDockerDriver } from '../../services/gateway/drivers/docker/driver.ts';
import { hasDriver, runtimes } from './available.ts';
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
const deployment = `parent-${process.pid}`;
/** Those of gateways in processes of their own. */
const alone = { dataDir: mkdtempSync(join(tmpdir(), 'cbx-')), deployment: `${deployment}-alone` };
/** A parent that no gateway uses ends after 10 seconds. */
const idleMs = 12_000;
const image = process.env.CODEBOX_BOX_IMAGE ?? 'codebox-box:latest';
const daemon = createDaemon();
const forks: unknown[] = [];

/** Returns the containers of parents. */
const parents = async (of = { deployment }): Promise<ContainerInspectInfo[]> => {
  const filters = { label: [`codebox.deployment=${of.deployment}`, 'codebox.parent'] };
  const found = await daemon.call(deadline(), (docker) => docker.listContainers({ all: true, filters }));
  const inspected = found.map(({ Id }) =>
    daemon.callIfThere(deadline(), (docker) => docker.getContainer(Id).inspect()),
  );
  return (await Promise.all(inspected)).filter((container) => container !== undefined);
};

const onlyParent = async (of = { deployment }): Promise<ContainerInspectInfo> => {
  const [parent, ...others] = await parents(of);
  if (parent === undefined || others.length > 0) throw new Error(`there are ${others.length + 1} parents or none`);
  return parent;
};

/** Returns a parent and its forks that are not in a box yet, which are root's. */
const processesOfParent = async ({ State }: ContainerInspectInfo): Promise<number[]> => {
  const found: number[] = [];
  for (const pid of await processesOf(0)) {
    const group = await readFile(`/proc/${pid}/cgroup`, 'utf8').catch(() => '');
    if (group !== '' && group === (await readFile(`/proc/${State.Pid}/cgroup`, 'utf8')) && (await isServer(pid)))
      found.push(Number(pid));
  }
  return found;
};

const folderOf = ({ Mounts }: ContainerInspectInfo): string =>
  Mounts.find(({ Destination }) => Destination === '/run/parent')?.Source ?? '';

const requestOf = async ({ id }: ForkedBox): Promise<Record<string, unknown>> => {
  const container = daemon.docker.getContainer(`codebox-${deployment}-${id}`);
  const { Id, State } = await daemon.call(deadline(), () => container.inspect());
  return { init: State.Pid, container: Id, uid: boxUser(id), limits: {} };
};

/** Sends a request for a fork, and returns the reply. */
const ask = async (parent: ContainerInspectInfo, request: Record<string, unknown>): Promise<string> => {
  const connection = connect(`${folderOf(parent)}/socket`).setEncoding('utf8');
  connection.on('error', () => {});
  connection.write(`${JSON.stringify(request)}\n`);
  return (await connection.toArray()).join('');
};

const aloneOptions = { ...alone, sharedParent: true, parentsFolder: `${alone.dataDir}/parents`, forkDeadlines };
/** Creates an instance with a driver of its own, and then waits. */
const script = (spec: Record<string, unknown>) => `
import { createDockerDriver } from ${JSON.stringify(resolve('services/gateway/drivers/docker/driver.ts'))};
const driver = await createDockerDriver(${JSON.stringify(aloneOptions)});
await driver.create(${JSON.stringify(spec)}, AbortSignal.timeout(60_000));
console.log('created');
setInterval(() => {}, 1000);
`;

const startGateway = async (spec: Record<string, unknown>): Promise<ChildProcess> => {
  const gateway = spawn(process.execPath, ['--input-type=module', '-e', script(spec)], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  onTestFinished(() => void gateway.kill('SIGKILL'));
  expect(String(await once(gateway.stdout, 'data'))).toBe('created\n');
  return gateway;
};

const killed = async (gateway: ChildProcess): Promise<void> => {
  gateway.kill('SIGKILL');
  await once(gateway, 'exit');
};

if (hasDriver('docker') && runtimes.includes('runc')) {
  const driver = await createDockerDriver({
    dataDir,
    deployment,
    sharedParent: true,
    parentsFolder: join(dataDir, 'parents'),
    onFork: (failure) => forks.push(failure),
    forkDeadlines,
  });
  const { create, end, endAll, inKernel, factsOf, seenOfServer, serverOf } = createForkedBoxes(driver, image);

  afterEach(() => {
    forks.length = 0;
  });
  afterAll(async () => {
    await endAll();
    for (const { Id } of await parents()) await daemon.docker.getContainer(Id).remove({ force: true });
    for (const folder of [dataDir, alone.dataDir]) await rm(folder, { recursive: true, force: true });
  });

  describe('a container whose server is forked', () => {
    test('has nothing of the parent and nothing of another box', async () => {
      const [one, other] = [await create({ limits: littleMemory }), await create()];
      expect(forks).toEqual([undefined, undefined]);
      const seen = await seenOfServer(other);
      expect(seen).toMatchObject({ folders: [], missing: [], threads: 1, places: ['/mnt/data', '/'] });
      expect(seen.sockets).toBeLessThan(20);
      expect(seen.environment.join(' ')).not.toMatch(/TOKEN|INSTANCE|DATABASE_URL|DATA_DIR|npm_package/);
      const secrets = [one.token, one.id];
      expect(await holds(await serverOf(one), secrets)).toContain(one.token);
      expect(await holds(await serverOf(other), secrets)).toEqual([]);
      const parent = await onlyParent();
      expect(await holds(String(parent.State.Pid), [...secrets, other.token, other.id, dataDir])).toEqual([]);
      // The daemon does not know the token either.
      const { container } = await requestOf(other);
      const made = await daemon.docker.getContainer(String(container)).inspect();
      expect(JSON.stringify(made)).not.toContain(other.token);
      const drawn = [await factsOf(one), await factsOf(other)];
      expect(drawn.map(({ forked }) => forked)).toEqual([true, true]);
      const [mine = [], theirs = []] = drawn.map(({ draws }) => draws);
      for (const [n, value] of mine.entries()) expect(value).not.toBe(theirs[n]);
      await Promise.all([end(one), end(other)]);
    });

    test('has kernels with the modules, paths and variables of one with a server of its own', async () => {
      const [forked, own] = [await create(), await create({ parent: false })];
      expect(forks).toEqual([undefined]);
      const [is, expected] = [await factsOf(forked), await factsOf(own)];
      expect(is.path).toEqual(expected.path);
      const variables = 'import json, os; print(json.dumps(dict(os.environ)))';
      const [ours, theirs] = [
        JSON.parse(await inKernel(forked, variables)),
        JSON.parse(await inKernel(own, variables)),
      ];
      // A shell has added the last one, whose folder is no longer that of the kernel.
      delete theirs.PWD;
      expect(Object.keys(ours).sort()).toEqual(Object.keys(theirs).sort());
      for (const name of Object.keys(ours).filter((name) => !/^(JPY|MPLBACKEND|CODEBOX_INSTANCE)/.test(name)))
        expect([name, ours[name]]).toEqual([name, theirs[name]]);
      await Promise.all([end(forked), end(own)]);
    });

    test('is in the control groups of its container and ends with its server', async () => {
      const box = await create();
      const server = await serverOf(box);
      const { init } = await requestOf(box);
      expect(await readFile(`/proc/${server}/cgroup`, 'utf8')).toBe(await readFile(`/proc/${init}/cgroup`, 'utf8'));
      process.kill(Number(server), 'SIGKILL');
      await until(async () => (await driver.inspect(box.id, deadline()))?.state === 'ended');
      expect(await driver.inspect(box.id, deadline())).toMatchObject({ why: { code: 'exit', detail: 'SIGKILL' } });
      await end(box);
    });

    test('goes on without the parent, of which another one is started', async () => {
      const before = await create();
      const parent = await onlyParent();
      await daemon.docker.getContainer(parent.Id).kill();
      await until(async () => (await parents()).length === 0);
      expect(await inKernel(before, 'print(1 + 1)')).toBe('2\n');
      const after = await create();
      expect(forks).toEqual([undefined, undefined]);
      expect((await onlyParent()).Id).not.toBe(parent.Id);
      await Promise.all([end(before), end(after)]);
    });
  });

  describe('the container of a parent', () => {
    test('has the rights that it needs and no others', async () => {
      await end(await create());
      const { HostConfig, Config, Mounts, State, NetworkSettings } = await onlyParent();
      expect(HostConfig).toMatchObject({
        Privileged: false,
        ReadonlyRootfs: true,
        PidMode: 'host',
        NetworkMode: 'none',
      });
      expect(Object.keys(NetworkSettings.Networks).filter((name) => name !== 'none')).toEqual([]);
      expect(Mounts.map(({ Destination }) => Destination).sort()).toEqual(['/run/parent', '/sys/fs/cgroup']);
      expect(Config.Env.join(' ')).not.toMatch(/TOKEN|SECRET|KEY|DATABASE/);
      const status = await readFile(`/proc/${State.Pid}/status`, 'utf8');
      const needed = [1, 6, 7, 8, 18, 19, 21].reduce((sum, bit) => sum + 2 ** bit, 0);
      expect(status).toContain(`CapBnd:\t${needed.toString(16).padStart(16, '0')}\n`);
      expect(status).toMatch(/NoNewPrivs:\t1\n/);
      expect(status).toMatch(/Seccomp:\t2\n/);
      const folder = folderOf(await onlyParent());
      expect([(await stat(folder)).mode & 0o777, (await readdir(folder)).sort()]).toEqual([
        0o700,
        ['gateways', 'name', 'seccomp.bpf', 'seccomp.json', 'socket'],
      ]);
    });

    test('lets nothing enter but the container that it is told, by its first process', async () => {
      const [one, other] = [await create(), await create()];
      const [parent, mine, theirs] = [await onlyParent(), await requestOf(one), await requestOf(other)];
      const server = Number(await serverOf(one));
      for (const [wanted, reason] of [
        [{ init: process.pid }, /namespace of its own/],
        [{ init: theirs.init }, /ProcessLookupError/],
        [{ init: server }, /ProcessLookupError/],
        [{ init: 2 ** 22 + 1 }, /ProcessLookupError/],
        [{ init: parent.State.Pid, container: parent.Id }, /namespace of its own/],
        [{ container: '' }, /ValueError/],
      ] as const)
        expect(await ask(parent, { ...mine, ...wanted })).toMatch(reason);
      await until(async () => (await processesOfParent(parent)).length === 1);
      await Promise.all([end(one), end(other)]);
    });
  });

  test('is shared by the gateways of a deployment, and ends after the last one, whose boxes go on', async () => {
    const spec = { token: 'x'.repeat(40), image, limits: littleMemory, network: 'none' };
    const [one, other] = [`one-${process.pid}`, `other-${process.pid}`];
    const [first, second] = [await startGateway({ ...spec, id: one }), await startGateway({ ...spec, id: other })];
    const { Id } = await onlyParent(alone);
    await killed(first);
    await sleep(idleMs);
    expect(await onlyParent(alone)).toMatchObject({ Id });
    await killed(second);
    await until(async () => (await parents(alone)).length === 0);
    const next = await createDockerDriver(alone);
    for (const id of [one, other]) {
      expect(await next.inspect(id, deadline())).toMatchObject({ state: 'running' });
      await next.destroy(id, deadline());
    }
  });

  describe('a fork into a container that does not succeed', () => {
    test('is replaced by a server that another container starts itself', async () => {
      await end(await create());
      const parent = await onlyParent();
      process.kill(parent.State.Pid, 'SIGSTOP');
      const creating = create();
      // Its fork is asked for once its container runs.
      const filters = { label: [`codebox.deployment=${deployment}`, 'codebox.instance'], status: ['running'] };
      await until(async () => (await daemon.docker.listContainers({ filters })).length === 1);
      await sleep(1500);
      process.kill(parent.State.Pid, 'SIGKILL');
      const box = await creating;
      expect(forks).toEqual([undefined, expect.any(Error)]);
      expect(await inKernel(box, 'print(1 + 1)')).toBe('2\n');
      await end(box);
    });

    test('leaves nothing behind, also when the parent is killed meanwhile', async () => {
      await sleep(10_000);
      const box = await create();
      const parent = await onlyParent();
      const connection = connect(`${folderOf(parent)}/socket`);
      connection.on('error', () => {});
      // Without the end of the line, so that the fork waits for it.
      connection.write(JSON.stringify(await requestOf(box)));
      await until(async () => (await processesOfParent(parent)).length === 2);
      const processes = await processesOfParent(parent);
      process.kill(parent.State.Pid, 'SIGKILL');
      for (const pid of processes)
        await until(async () => (await readFile(`/proc/${pid}/cmdline`, 'utf8').catch(() => '')) === '');
      await until(async () => (await parents()).length === 0 && !existsSync(folderOf(parent)));
      connection.destroy();
      await end(box);
    });
  });
}
