import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Limits } from '../../services/gateway/drivers/driver.ts';
import { evalInBox, runInBox, type ServedInstance } from './box-client.ts';
import { countForks, fillDisk, measureCpus, useMemory } from './box-programs.ts';
import { type DriverContract, type Fixture, limits } from './fixture.ts';

/** The limits that each instance has of its own, by their effect on code in the box. */
export const describeLimits = ({ kernel, outOfMemory }: DriverContract, fixture: Fixture): void => {
  const half = { ...limits, cpus: 0.5 };
  const isOwn = (name: keyof Limits) => fixture.driver().capabilities.limits[name] === 'instance';

  describe('a limit', () => {
    let box: ServedInstance;
    beforeAll(async () => {
      box = await fixture.start({ limits: half });
    });
    afterAll(() => fixture.end(box.id));

    test('of disk is the size of its volume, and a full volume is an error within the box', async () => {
      if (!isOwn('diskMb') || !fixture.driver().capabilities.disk.isFullAnError) return;
      const size = 'import os; disk = os.statvfs("/mnt"); print(disk.f_blocks * disk.f_frsize)';
      const bytes = await evalInBox<number>(box, size);
      expect(bytes).toBeLessThanOrEqual(half.diskMb * 1024 * 1024);
      expect(bytes).toBeGreaterThan(half.diskMb * 1024 * 1024 * 0.8);
      expect(await fillDisk(box)).toBe(28);
      expect((await runInBox(box, ['rm', '-rf', '/mnt/data/0', '/mnt/data/1'])).status).toBe('ok');
    });

    if (kernel === 'host')
      test('of CPU time is in force', async () => {
        if (isOwn('cpus')) expect(await measureCpus(box)).toBeLessThan(half.cpus * 1.3);
      });

    if (kernel === 'host')
      test('of processes stops a fork bomb, and the box survives', async () => {
        if (isOwn('pids')) expect(await countForks(box)).toBeLessThan(half.pids);
        expect((await runInBox(box, ['true'])).status).toBe('ok');
      });

    if (outOfMemory === 'program')
      test('of memory kills the program beyond it, counts the kill, and the box survives', async () => {
        if (!isOwn('memoryMb')) return;
        expect(await useMemory(box, 1024)).toBe('SIGKILL');
        const used = await fixture.usageOf(box.id);
        expect(used?.oomKills ?? 1).toBeGreaterThanOrEqual(1);
        expect(used?.peakMemoryBytes ?? 0).toBeLessThanOrEqual(half.memoryMb * 1024 * 1024);
        expect((await fixture.driver().inspect(box.id, fixture.deadline()))?.state).toBe('running');
        expect((await runInBox(box, ['true'])).status).toBe('ok');
      });
    else
      test('of memory ends a box beyond it, and the instance reports oom', async () => {
        if (!isOwn('memoryMb')) return;
        const spent = await fixture.start();
        // The connection to a pod that is gone is silent, so nothing waits for its end.
        useMemory(spent, 1024).catch(() => undefined);
        const ended = await fixture.waitUntilEnded(spent.id).finally(() => fixture.end(spent.id));
        expect(ended).toMatchObject({ state: 'ended', why: { code: 'oom' } });
      });
  });
};
