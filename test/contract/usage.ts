import { describe, test } from 'vitest';
import { runInBox } from './box-client.ts';
import type { DriverContract, Fixture } from './fixture.ts';

/** Tests the usage counters of an instance, for drivers that measure them at once and for those that do so at intervals. */
export const describeUsage = ({ measures }: DriverContract, fixture: Fixture): void => {
  const { deadlineMs, usageOf } = fixture;

  describe('an instance', () => {
    test('has usage counters that never decrease, where they are measured', async ({ expect, onTestFinished }) => {
      const box = await fixture.start();
      onTestFinished(() => fixture.end(box.id));
      const work = () => runInBox(box, ['python', '-c', 'for i in range(10 ** 7): pass']);
      await work();
      if (!measures) {
        expect(await usageOf(box.id)).toBeUndefined();
        return;
      }
      const known = () => expect.poll(() => usageOf(box.id), { timeout: deadlineMs });
      await known().toBeDefined();
      const first = await usageOf(box.id);
      await work();
      await known().toMatchObject({ at: expect.toSatisfy((at: Date) => at > (first?.at ?? at)) });
      await known().toMatchObject({ cpuMs: expect.toSatisfy((ms: number) => ms > (first?.cpuMs ?? ms)) });
      const used = await usageOf(box.id);
      expect(used?.memoryBytes).toBeGreaterThan(1024 * 1024);
      expect(used?.pids).toBeGreaterThanOrEqual(1);
      expect(used?.oomKills ?? 0).toBe(0);
      if (used?.peakMemoryBytes !== undefined)
        expect(used.peakMemoryBytes).toBeGreaterThanOrEqual(first?.peakMemoryBytes ?? 0);
    });
  });
};
