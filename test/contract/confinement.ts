import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { evalInBox, runInBox, type ServedInstance, waitForBox } from './box-client.ts';
import type { DriverContract, Fixture } from './fixture.ts';
import { expectNoNetwork, expectRefusalWithoutToken } from './network.ts';
import { type Probe, probe } from './probe.ts';

/** Tests what code in a box can see and do, probed from inside. */
export const describeConfinement = ({ kernel, hasSeccompFilter }: DriverContract, fixture: Fixture): void => {
  /** A guarantee that exists only where boxes share the kernel of the host. */
  const onHostKernel = (name: string, body: () => void | Promise<void>): void => {
    if (kernel === 'host') test(name, body);
  };

  describe('a box', () => {
    let box: ServedInstance;
    let seen: Probe;
    beforeAll(async () => {
      box = await fixture.start();
      seen = await evalInBox<Probe>(box, probe);
    });
    afterAll(() => fixture.end(box.id));

    test('has a healthy box server at its address', async () => {
      expect(await waitForBox(box, fixture.deadlineMs)).toMatchObject({
        status: 'ok',
        languages: expect.arrayContaining(['python']),
      });
    });

    test('refuses requests without the token of the instance, also from code in the box', async () => {
      await expectRefusalWithoutToken(box);
    });

    onHostKernel('shares no file of /etc with another box, so that locks cannot be used to communicate', async () => {
      const other = await fixture.start();
      const hold =
        'for file in /etc/hosts /etc/passwd /etc/group; do flock --exclusive $file sleep 600 & done; sleep 0.1';
      await runInBox(box, ['bash', '-c', hold.replaceAll(' & ', ' > /dev/null 2>&1 & ')]);
      const look = 'for file in /etc/hosts /etc/passwd /etc/group; do flock --nonblock $file true || echo $file; done';
      expect((await runInBox(other, ['bash', '-c', look])).stdout).toBe('');
      await fixture.end(other.id);
    });

    test('has no capabilities and cannot regain any; its user has a name and no supplementary groups', () => {
      const capabilities = Object.entries(seen.status).filter(([name]) => name.startsWith('Cap'));
      expect(capabilities.length).toBeGreaterThanOrEqual(4);
      for (const [, value] of capabilities) expect(value).toBe('0000000000000000');
      if (kernel === 'host') expect(seen.status).toMatchObject({ NoNewPrivs: '1', Seccomp: '2' });
      expect(seen.setIdFiles).toEqual([]);
      expect(seen).toMatchObject({ user: 'user', setuid: 'EPERM' });
      expect(seen.groups.filter((group) => group !== seen.uid)).toEqual([]);
    });

    if (hasSeccompFilter) {
      onHostKernel('is refused dangerous system calls', () => {
        for (const [name, result] of Object.entries(seen.calls)) {
          expect([name, result]).toEqual([name, name === 'clone3' ? 'ENOSYS' : 'EPERM']);
        }
        expect(seen).toMatchObject({ device: 'EPERM', netfilter: 'EPERM', fifo: 'allowed' });
      });

      test('can open only Unix and internet sockets', () => {
        const refused = kernel === 'host' ? /^EPERM$/ : /^E(PERM|AFNOSUPPORT)$/;
        for (const [name, result] of Object.entries(seen.families)) {
          expect([name, result]).toEqual([name, expect.stringMatching(refused)]);
        }
      });
    }

    test('cannot reach any network', async () => {
      await expectNoNetwork(box);
    });

    test('can write only to its volume, /tmp and its socket folder', () => {
      if (kernel === 'host') expect(seen.rootIsReadOnly).toBe(true);
      for (const [path, result] of Object.entries(seen.writes)) {
        expect([path, result]).toEqual([path, expect.stringMatching(/^(EROFS|EACCES|EPERM|ENOENT)$/)]);
      }
    });

    test('sees neither devices nor processes of the host', () => {
      const forbidden = ['mem', 'kmsg', 'kvm', 'sda', 'vda', 'loop0', 'loop-control'];
      // gVisor has a FUSE of its own.
      if (kernel === 'host') forbidden.push('fuse');
      expect(seen.devices.filter((name) => forbidden.includes(name))).toEqual([]);
      expect(seen.processes).toBeLessThan(20);
    });

    test('inherits nothing from the environment of the gateway', () => {
      const names = Object.keys(seen.environment).join(' ');
      expect(names).not.toMatch(/DATABASE_URL|CODEBOX_ADMIN|CODEBOX_DATA_DIR|DOCKER_HOST|KUBERNETES|npm_package/);
    });

    test('can run ordinary programs: threads, processes, SQLite, Node, Bash and git', async () => {
      const code = [
        'import json, multiprocessing, numpy, os, sqlite3, subprocess, threading',
        "pool = multiprocessing.get_context('fork').Pool(2)",
        'threads = [threading.Thread(target=str) for _ in range(8)]',
        '[t.start() for t in threads]; [t.join() for t in threads]',
        "sqlite3.connect('/mnt/data/a.db').execute('create table t(x)')",
        "os.symlink('a.db', '/mnt/data/link')",
        'run = lambda *argv: subprocess.run(argv, capture_output=True, text=True, check=True).stdout.strip()',
        "print(json.dumps([pool.map(abs, [-1]), float(numpy.ones((9, 9)).sum()), run('node', '-p', '1+1'),",
        "  run('bash', '-c', 'echo $HOME'), run('git', 'init', '-q', '/mnt/data/repo'), len(threads)]))",
      ];
      expect(await evalInBox(box, code.join('\n'))).toEqual([[1], 81, '2', '/mnt/home', '', 8]);
    });
  });
};
