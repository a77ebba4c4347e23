import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { CodeBoxError } from '#contract';
import type { Driver, Instance, InstanceSpec } from '../../services/gateway/drivers/driver.ts';
import { boxUser } from '../../services/gateway/drivers/host/box-user.ts';
import { describeBinding } from './binding.ts';
import { askBox, runInBox, type ServedInstance, token, untilRunning, waitForBox } from './box-client.ts';
import { cpuQuota } from './cpu-quota.ts';
import { processesOf } from './host-census.ts';
import { type Probe, probe } from './probe.ts';
import { expectPublicAddressesOnly, expectRefusalWithoutToken } from './reach.ts';

/** What a driver has to bring to be tested. */
export interface DriverContract {
  name: string;
  image: string;
  /** Makes a driver on the same data and deployment each time, as a gateway does that starts anew. */
  create(): Promise<Driver>;
  /** What is left on the host of boxes of this deployment. */
  census(): Promise<string[]>;
  /** The id, on the host, of a process in the control group of an instance. */
  hostPid(id: string): Promise<number>;
  /** gVisor answers calls itself: it has its own idea of what to refuse, and a box dies as a whole when its memory is spent. */
  kernel: 'host' | 'gvisor';
}

// A whole processor, because starting up and probing take longest here; too little memory to prepare kernels that nobody wants.
const limits = { cpus: 1, memoryMb: 380, diskMb: 96, pids: 64 };
const deadline = () => AbortSignal.timeout(60_000);

/** The guarantees that every driver gives, run against real boxes. */
export const runDriverContract = (contract: DriverContract): void => {
  /** For what holds only where boxes share the kernel of the host; nothing is skipped elsewhere, it is not a guarantee there. */
  const onHostKernel = (name: string, body: () => void | Promise<void>): void => {
    if (contract.kernel === 'host') test(name, body);
  };
  let driver: Driver;
  let before: string[];
  let count = 0;

  const spec = (more: Partial<InstanceSpec> = {}): InstanceSpec => {
    count += 1;
    const id = `c${process.pid}-${count}`;
    return { id, token, image: contract.image, limits, network: 'none', ...more };
  };
  const start = async (more: Partial<InstanceSpec> = {}): Promise<ServedInstance> => {
    const instance = await untilRunning(driver, await driver.create(spec(more), deadline()));
    await waitForBox(instance.address);
    return instance;
  };
  const usageOf = async (id: string) => (await driver.usage(['no-such', id], deadline())).get(id);
  const end = (id: string) => driver.destroy(id, deadline());

  describe(contract.name, () => {
    beforeAll(async () => {
      driver = await contract.create();
      for (const { id } of await driver.list(deadline())) await end(id);
      before = await contract.census();
    });

    afterAll(async () => {
      for (const { id } of await driver.list(deadline())) await end(id);
    });

    describe('a box', () => {
      let box: ServedInstance;
      let seen: Probe;
      beforeAll(async () => {
        box = await start();
        seen = await askBox<Probe>(box.address, probe);
      });
      afterAll(() => end(box.id));

      test('serves on its socket', async () => {
        expect(await waitForBox(box.address)).toMatchObject({
          status: 'ok',
          languages: expect.arrayContaining(['python']),
        });
      });

      test('answers nobody without the token of the instance, code of the box neither', async () => {
        await expectRefusalWithoutToken(box);
      });

      onHostKernel('shares no file of /etc with another box that a lock could be seen on', async () => {
        const other = await start();
        const hold =
          'for file in /etc/hosts /etc/passwd /etc/group; do flock --exclusive $file sleep 600 & done; sleep 0.1';
        await runInBox(box.address, ['bash', '-c', hold.replaceAll(' & ', ' > /dev/null 2>&1 & ')]);
        const look =
          'for file in /etc/hosts /etc/passwd /etc/group; do flock --nonblock $file true || echo $file; done';
        expect((await runInBox(other.address, ['bash', '-c', look])).stdout).toBe('');
        await end(other.id);
      });

      test('runs as a user of its own, who has a name and no further groups', async () => {
        expect(seen).toMatchObject({ uid: boxUser(box.id), user: 'user', setuid: 'EPERM' });
        expect(seen.groups.filter((group) => group !== boxUser(box.id))).toEqual([]);
        const other = await start();
        expect(await askBox(other.address, 'import os; print(os.getuid())')).not.toBe(seen.uid);
        await end(other.id);
      });

      test('has no capability, and none to regain', () => {
        const capabilities = Object.entries(seen.status).filter(([name]) => name.startsWith('Cap'));
        expect(capabilities.length).toBeGreaterThanOrEqual(4);
        for (const [, value] of capabilities) expect(value).toBe('0000000000000000');
        if (contract.kernel === 'host') expect(seen.status).toMatchObject({ NoNewPrivs: '1', Seccomp: '2' });
        expect(seen.setIdFiles).toEqual([]);
      });

      onHostKernel('is refused every call that reaches deep into the kernel', () => {
        for (const [name, answer] of Object.entries(seen.calls)) {
          expect([name, answer]).toEqual([name, name === 'clone3' ? 'ENOSYS' : 'EPERM']);
        }
        expect(seen).toMatchObject({ device: 'EPERM', netfilter: 'EPERM', fifo: 'allowed' });
      });

      test('gets no socket but Unix and internet ones', () => {
        const refused = contract.kernel === 'host' ? /^EPERM$/ : /^E(PERM|AFNOSUPPORT)$/;
        for (const [name, answer] of Object.entries(seen.families)) {
          expect([name, answer]).toEqual([name, expect.stringMatching(refused)]);
        }
      });

      test('has no network but itself', () => {
        expect(seen.interfaces).toEqual(['lo']);
      });

      test('finds everything read-only but its volume, /tmp and its socket folder', () => {
        if (contract.kernel === 'host') expect(seen.rootIsReadOnly).toBe(true);
        for (const [path, answer] of Object.entries(seen.writes)) {
          expect([path, answer]).toEqual([path, expect.stringMatching(/^(EROFS|EACCES|EPERM|ENOENT)$/)]);
        }
      });

      test('sees neither devices nor processes of the host', () => {
        const forbidden = ['mem', 'kmsg', 'kvm', 'sda', 'vda', 'loop0', 'loop-control'];
        // gVisor has a FUSE of its own.
        if (contract.kernel === 'host') forbidden.push('fuse');
        expect(seen.devices.filter((name) => forbidden.includes(name))).toEqual([]);
        expect(seen.processes).toBeLessThan(20);
      });

      onHostKernel('learns nothing of the host from its files, and cannot spoil its audit trail', () => {
        expect(seen.hostFiles).toEqual([]);
        expect(seen.loginUid).not.toBe('free');
      });

      test('inherits nothing from the environment of the gateway', () => {
        const names = Object.keys(seen.environment).join(' ');
        expect(names).not.toMatch(/DATABASE_URL|CODEBOX_ADMIN|CODEBOX_DATA_DIR|DOCKER_HOST|npm_package/);
      });

      test('can do what honest programs do', async () => {
        const code = [
          'import json, multiprocessing, numpy, os, sqlite3, subprocess, threading',
          "pool = multiprocessing.get_context('fork').Pool(2)",
          'threads = [threading.Thread(target=str) for _ in range(8)]',
          '[t.start() for t in threads]; [t.join() for t in threads]',
          "sqlite3.connect('/mnt/data/a.db').execute('create table t(x)')",
          "os.symlink('a.db', '/mnt/data/link')",
          'say = lambda *argv: subprocess.run(argv, capture_output=True, text=True, check=True).stdout.strip()',
          "print(json.dumps([pool.map(abs, [-1]), float(numpy.ones((9, 9)).sum()), say('node', '-p', '1+1'),",
          "  say('bash', '-c', 'echo $HOME'), say('git', 'init', '-q', '/mnt/data/repo'), len(threads)]))",
        ];
        expect(await askBox(box.address, code.join('\n'))).toEqual([[1], 81, '2', '/mnt/home', '', 8]);
      });
    });

    describe('a limit', () => {
      let box: ServedInstance;
      beforeAll(async () => {
        box = await start();
      });
      afterAll(() => end(box.id));

      test('of disk is the size of its volume, and a full one is the box’s own trouble', async () => {
        const look =
          'import json, os; disk = os.statvfs("/mnt"); print(json.dumps([disk.f_blocks * disk.f_frsize, disk.f_flag]))';
        const [bytes, flags] = await askBox<[number, number]>(box.address, look);
        expect(bytes).toBeLessThanOrEqual(limits.diskMb * 1024 * 1024);
        expect(bytes).toBeGreaterThan(limits.diskMb * 1024 * 1024 * 0.8);
        // ST_NOSUID and ST_NODEV
        if (contract.kernel === 'host') expect(flags & 0b110).toBe(0b110);
        const fill =
          "i = 0\ntry:\n  while True:\n    open(f'/mnt/data/{i}', 'wb').write(b'x' * (1 << 22)); i += 1\nexcept OSError as e: print(e.errno)";
        expect(await askBox(box.address, fill)).toBe(28);
        expect((await runInBox(box.address, ['rm', '-rf', '/mnt/data/0', '/mnt/data/1'])).status).toBe('ok');
      });

      test('of CPU time is in force', async () => {
        const quota = await cpuQuota(await contract.hostPid(box.id));
        expect(quota).toBeCloseTo(limits.cpus);
      });

      onHostKernel('of processes stops a fork bomb, and the box lives', async () => {
        const code = [
          'import os, time',
          'n = 0',
          'try:',
          '  while n < 1000:',
          '    if os.fork() == 0: time.sleep(60); os._exit(0)',
          '    n += 1',
          'except OSError as error: print(error.errno, flush=True)',
          'os.killpg(0, 9)',
        ];
        const { stdout } = await runInBox(box.address, ['setsid', '--wait', 'python', '-c', code.join('\n')]);
        expect(stdout.trim()).toBe('11');
        expect((await runInBox(box.address, ['true'])).status).toBe('ok');
      });

      onHostKernel('of memory kills what is over it, is counted, and the box lives', async () => {
        const code = 'b = bytearray(1 << 30)\nfor i in range(0, len(b), 4096): b[i] = 1';
        const { signal } = await runInBox(box.address, ['python', '-c', code]);
        expect(signal).toBe('SIGKILL');
        const used = await usageOf(box.id);
        expect(used?.oomKills ?? 1).toBeGreaterThanOrEqual(1);
        expect(used?.peakMemoryBytes ?? 0).toBeLessThanOrEqual(limits.memoryMb * 1024 * 1024);
        expect((await driver.inspect(box.id, deadline()))?.state).toBe('running');
        expect((await runInBox(box.address, ['true'])).status).toBe('ok');
      });
    });

    describe('an instance', () => {
      const made: string[] = [];
      const make = async (more: Partial<InstanceSpec> = {}) => {
        const instance = await start(more);
        made.push(instance.id);
        return instance;
      };
      afterEach(async () => {
        for (const id of made.splice(0)) await end(id);
      });

      test('is listed, and found again by a driver made anew', async () => {
        const { id, address } = await make();
        const again = await contract.create();
        const running = { id, state: 'running', address };
        expect(await again.inspect(id, deadline())).toEqual(running);
        expect(await again.list(deadline())).toEqual([running]);
        await waitForBox(address);
        await again.destroy(id, deadline());
        expect(await driver.inspect(id, deadline())).toBeUndefined();
      });

      test('is made once, however often its spec is asked for, and refused for another spec', async () => {
        const wanted = spec();
        made.push(wanted.id);
        const again = await contract.create();
        const asked = [driver.create(wanted, deadline()), driver.create({ ...wanted }, deadline())];
        const [first] = await Promise.all(asked.map(async (one) => untilRunning(driver, await one)));
        if (first === undefined) throw new Error('it was not made');
        await waitForBox(first.address);
        await askBox(first.address, "print(open('/tmp/first', 'w').write('x'))");
        for (const one of [driver, again]) expect(await one.create(wanted, deadline())).toEqual(first);
        expect(await askBox(first.address, "print(repr(open('/tmp/first').read()).replace(chr(39), chr(34)))")).toBe(
          'x',
        );
        expect(await driver.list(deadline())).toEqual([first]);
        const others = [
          { ...wanted, network: 'none', token: 'another' } as const,
          { ...wanted, limits: { ...limits, pids: 65 } },
        ];
        for (const other of others)
          await expect(again.create(other, deadline())).rejects.toMatchObject({ code: 'conflict' });
        const { id } = wanted;
        expect((await driver.inspect(id, deadline()))?.state).toBe('running');
      });

      test('stops where it is when frozen, and goes on when thawed', async () => {
        const { freeze, thaw } = driver;
        expect([freeze !== undefined, thaw !== undefined]).toEqual(Array(2).fill(driver.capabilities.freeze));
        if (!freeze || !thaw) return;
        const { id, address } = await make();
        const ticking =
          'while true; do date +%N > /mnt/data/tick.new; mv /mnt/data/tick.new /mnt/data/tick; sleep 0.02; done';
        await runInBox(address, ['bash', '-c', `(${ticking}) > /dev/null 2>&1 & sleep 0.2`]);
        const busy = await usageOf(id);
        await freeze(id, deadline());
        await freeze(id, deadline());
        const frozen = await usageOf(id);
        await sleep(300);
        // gVisor's own threads tick on; the loop would have used most of the time.
        expect(((await usageOf(id))?.cpuMs ?? 0) - (frozen?.cpuMs ?? 0)).toBeLessThan(50);
        expect((await driver.inspect(id, deadline()))?.state).toBe('running');
        await thaw(id, deadline());
        await thaw(id, deadline());
        expect((await runInBox(address, ['true'])).status).toBe('ok');
        const after = await usageOf(id);
        expect(after?.cpuMs).toBeGreaterThan(busy?.cpuMs ?? 0);
        expect(after?.at.getTime()).toBeGreaterThan(busy?.at.getTime() ?? 0);
        expect(after?.memoryBytes).toBeGreaterThan(1024 * 1024);
        expect(after?.pids).toBeGreaterThanOrEqual(1);
      });

      test('can be destroyed while it is frozen', async () => {
        const { id } = await make();
        await driver.freeze?.(id, deadline());
        await end(id);
        expect(await driver.inspect(id, deadline())).toBeUndefined();
      });

      test('tells how it ended when the box server was killed', async () => {
        const { id, address } = await make();
        await runInBox(address, ['pkill', '-KILL', '-f', 'codebox_server']).catch(() => undefined);
        const found = await untilStopped(driver, id);
        expect(found).toMatchObject({ state: 'ended', why: { code: 'exit', detail: 'SIGKILL' } });
        expect(await usageOf(id)).toBeUndefined();
      });

      test('leaves nothing behind, however often it is destroyed', async () => {
        const { id, address } = await make();
        const bomb = 'setsid sleep 600 & (trap "" TERM INT HUP; sleep 600) & disown -a';
        await runInBox(address, ['bash', '-c', bomb]).catch(() => undefined);
        await Promise.all([end(id), end(id)]);
        await end(id);
        expect(await driver.list(deadline())).toEqual([]);
        expect(await contract.census()).toEqual(before);
        if (contract.kernel === 'host') expect(await processesOf(boxUser(id))).toEqual([]);
      });

      test('that could not be made leaves nothing behind', async () => {
        const given = [AbortSignal.abort(), ...[1, 5, 15, 40].map((ms) => AbortSignal.timeout(ms))];
        const made = await Promise.allSettled(given.map((ended) => driver.create(spec(), ended)));
        // How far each came is the machine's affair: one that was made in time is a whole instance.
        expect(made[0]?.status).toBe('rejected');
        for (const one of made) if (one.status === 'fulfilled') await end(one.value.id);
        await expect.poll(() => driver.list(deadline()), { timeout: 20_000 }).toEqual([]);
        await expect.poll(() => contract.census(), { timeout: 20_000 }).toEqual(before);
      });

      test('that is ended while it is made is gone, for both who ask, and leaves nothing behind', async () => {
        const ends = [0, 5, 20, 60, 150].map(async (ms) => {
          const wanted = spec();
          const made = driver.create(wanted, deadline()).then(
            () => 'made',
            (error: unknown) => (error instanceof CodeBoxError ? error.code : String(error)),
          );
          await sleep(ms);
          await end(wanted.id);
          return made;
        });
        // How far each came is the machine's affair.
        for (const how of await Promise.all(ends)) expect(['gone', 'made']).toContain(how);
        expect(await driver.list(deadline())).toEqual([]);
        expect(await contract.census()).toEqual(before);
      });

      test('is made beside many others at once', async () => {
        const wanted = Array.from({ length: 6 }, () => spec());
        const all = await Promise.all(wanted.map((one) => driver.create(one, deadline())));
        expect(new Set(all.map(({ id }) => id)).size).toBe(6);
        await Promise.all(all.map(({ id }) => end(id)));
        expect(await contract.census()).toEqual(before);
      });
    });

    test('the internet is public addresses only: not the host, not metadata, not another box', async (context) => {
      if (!driver.capabilities.networks.includes('internet')) {
        const refused = driver.create(spec({ network: 'internet' }), deadline());
        await expect(refused).rejects.toMatchObject({ code: 'unavailable' });
        return;
      }
      const [one, other] = [await start({ network: 'internet' }), await start({ network: 'internet' })];
      context.onTestFinished(async () => void (await Promise.all([end(one.id), end(other.id)])));
      await expectPublicAddressesOnly(one, other);
    });

    describeBinding({ driver: () => driver, start, hostPid: contract.hostPid });

    test('a method that needs an instance says so when there is none', async () => {
      expect(await driver.inspect('no-such', deadline())).toBeUndefined();
      for (const method of [driver.freeze, driver.thaw]) {
        if (method) await expect(method('no-such', deadline())).rejects.toMatchObject({ code: 'not_found' });
      }
      expect(await driver.usage(['no-such', 'nor-such'], deadline())).toEqual(new Map());
      await driver.ping(deadline());
      const capacity = await driver.capacity(deadline());
      if (capacity) expect(capacity.memoryMb).toBeGreaterThan(limits.memoryMb);
      await expect(driver.bind('no-such', {}, deadline())).rejects.toMatchObject({ code: 'not_found' });
      await driver.destroy('no-such', deadline());
    });
  });
};

const untilStopped = async (driver: Driver, id: string): Promise<Instance | undefined> => {
  const until = performance.now() + 20_000;
  for (;;) {
    const found = await driver.inspect(id, deadline());
    if (found?.state !== 'running' || performance.now() > until) return found;
    await sleep(50);
  }
};
