import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { boxUser } from '../../services/gateway/drivers/box-user.ts';
import { less, made, more } from './binding.ts';
import { evalInBox, runInBox, type ServedInstance } from './box-client.ts';
import { interfaces } from './box-programs.ts';
import { cpuQuota } from './cpu-quota.ts';
import { createFixture, type DriverContract, limits } from './fixture.ts';
import { processesOf } from './host-census.ts';
import { type Probe, probe } from './probe.ts';

/** The additional operations that the suite needs of a driver whose instances live on this host. */
export interface HostContract extends DriverContract {
  /** Returns the id, on the host, of a process in the control group of an instance. */
  hostPid(id: string): Promise<number>;
}

/** The guarantees of a driver whose instances live on this host, verified with the host's own files. */
export const runHostContract = (contract: HostContract): void => {
  const onHostKernel = (name: string, body: () => void | Promise<void>): void => {
    if (contract.kernel === 'host') test(name, body);
  };

  describe(`${contract.name}, on this host`, () => {
    const fixture = createFixture(contract);
    const { deadline, end, start } = fixture;
    const quotaOf = async (id: string) => await cpuQuota(await contract.hostPid(id));

    describe('a box', () => {
      let box: ServedInstance;
      let seen: Probe;
      beforeAll(async () => {
        box = await start();
        seen = await evalInBox<Probe>(box, probe);
      });
      afterAll(() => end(box.id));

      test('runs as a user of its own', async () => {
        expect(seen.uid).toBe(boxUser(box.id));
        const other = await start();
        expect(await evalInBox(other, 'import os; print(os.getuid())')).not.toBe(seen.uid);
        await end(other.id);
      });

      test('has only the loopback interface', () => {
        expect(seen.interfaces).toEqual(['lo']);
      });

      onHostKernel('reads nothing about the host in /proc and /sys, and cannot change its login uid', () => {
        expect(seen.hostFiles).toEqual([]);
        expect(seen.loginUid).not.toBe('free');
      });

      onHostKernel('has a volume that ignores device files and set-user-id bits', async () => {
        const flags = await evalInBox<number>(box, 'import os; print(os.statvfs("/mnt").f_flag)');
        // ST_NOSUID and ST_NODEV
        expect(flags & 0b110).toBe(0b110);
      });

      test('has the CPU quota of its limits', async () => {
        expect(await quotaOf(box.id)).toBeCloseTo(limits.cpus);
      });
    });

    describe('a change to a running instance', () => {
      let box: ServedInstance;
      const bind = (change: Parameters<ReturnType<typeof fixture.driver>['bind']>[1]) =>
        fixture.driver().bind(box.id, change, deadline());
      beforeAll(async () => {
        box = await start({ limits: made, takesNetwork: true });
      });
      afterAll(() => end(box.id));

      test('of CPU time sets the quota of its control group, and keeps it across other changes', async () => {
        if (!fixture.driver().capabilities.bind.limits.includes('cpus')) return;
        await bind({ limits: more });
        expect(await quotaOf(box.id)).toBeCloseTo(more.cpus);
        await bind({ limits: less });
        expect(await quotaOf(box.id)).toBeCloseTo(less.cpus);
        await bind({ limits: { pids: made.pids } });
        expect(await quotaOf(box.id)).toBeCloseTo(less.cpus);
      });

      test('of the network adds an interface and removes it', async () => {
        expect(await interfaces(box)).toEqual(['lo']);
        if (!fixture.driver().capabilities.bind.networks.includes('internet')) return;
        await bind({ network: 'internet' });
        expect((await interfaces(box)).length).toBe(2);
        await bind({ network: 'none' });
        expect(await interfaces(box)).toEqual(['lo']);
      });
    });

    test('a killed box server ends its instance, and the signal is reported', async () => {
      const box = await start();
      await runInBox(box, ['pkill', '-KILL', '-f', 'codebox_server']).catch(() => undefined);
      const found = await fixture.waitUntilEnded(box.id);
      expect(found).toMatchObject({ state: 'ended', why: { code: 'exit', detail: 'SIGKILL' } });
      await end(box.id);
    });

    onHostKernel('no process of a box is left after it is destroyed', async () => {
      const box = await start();
      const stubborn = 'setsid sleep 600 & (trap "" TERM INT HUP; sleep 600) & disown -a';
      await runInBox(box, ['bash', '-c', stubborn]).catch(() => undefined);
      expect(await processesOf(boxUser(box.id))).not.toEqual([]);
      await end(box.id);
      expect(await processesOf(boxUser(box.id))).toEqual([]);
    });
  });
};
