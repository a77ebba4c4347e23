import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import type { BindableLimits, Binding } from '../../services/gateway/drivers/driver.ts';
import { runInBox, type ServedInstance } from './box-client.ts';
import { countForks, measureCpus, useMemory } from './box-programs.ts';
import type { DriverContract, Fixture } from './fixture.ts';
import { expectNoNetwork, expectPublicAddressesOnly } from './network.ts';

/** The limits of the instance at its creation, and those that it is changed to. */
export const made = { cpus: 0.9, memoryMb: 300, diskMb: 96, pids: 64 };
export const more = { cpus: 1, memoryMb: 500, pids: 96 };
export const less = { cpus: 0.5, memoryMb: 250, pids: 40 };

/** A change to a running instance either takes effect before `bind` returns, or is refused. */
export const describeBinding = ({ kernel, outOfMemory, reachesInternet }: DriverContract, fixture: Fixture): void => {
  describe('a change to a running instance', () => {
    let box: ServedInstance;
    const { deadline, driver, end, start } = fixture;
    const bind = (change: Binding) => driver().bind(box.id, change, deadline());
    /** A busy node may take longer than the driver waits for it. */
    const bindInTime = (change: Binding) =>
      vi.waitFor(() => bind(change), { timeout: fixture.deadlineMs, interval: 500 });
    const canLimit = (name: keyof BindableLimits) => driver().capabilities.bind.limits.includes(name);
    const names = ['cpus', 'memoryMb', 'pids'] as const;
    /** The subset of these limits that the driver can change. */
    const bindable = (limits: BindableLimits): Partial<BindableLimits> =>
      Object.fromEntries(names.filter(canLimit).map((name) => [name, limits[name]]));
    const canConnect = () => driver().capabilities.bind.networks.includes('internet');

    beforeAll(async () => {
      box = await start({ limits: made, takesNetwork: true });
    });
    afterAll(() => end(box.id));

    test('of limits is in force once bind returns, upwards and downwards', async () => {
      for (const name of names.filter((one) => !canLimit(one)))
        await expect(bind({ limits: { [name]: more[name] } })).rejects.toMatchObject({ code: 'unavailable' });
      const countsMemory = canLimit('memoryMb') && outOfMemory === 'program';
      if (countsMemory) expect(await useMemory(box, 350)).toBe('SIGKILL');
      await bindInTime({ limits: bindable(more) });
      if (countsMemory) {
        expect(await useMemory(box, 350)).toBeNull();
        expect(await useMemory(box, 550)).toBe('SIGKILL');
      }
      if (canLimit('pids')) {
        const forks = await countForks(box);
        expect(forks).toBeGreaterThan(made.pids);
        expect(forks).toBeLessThan(more.pids);
      }
      await bindInTime({ limits: bindable(less) });
      if (countsMemory) expect(await useMemory(box, 270)).toBe('SIGKILL');
      if (canLimit('cpus') && kernel === 'host') expect(await measureCpus(box)).toBeLessThan(less.cpus * 1.3);
      if (canLimit('pids')) expect(await countForks(box)).toBeLessThan(less.pids);
    });

    test('leaves limits that it does not name unchanged', async () => {
      await bindInTime({ limits: bindable(less) });
      if (canLimit('pids')) await bind({ limits: { pids: made.pids } });
      await bind({});
      if (canLimit('cpus') && kernel === 'host') expect(await measureCpus(box)).toBeLessThan(less.cpus * 1.3);
      if (canLimit('pids')) expect(await countForks(box)).toBeGreaterThan(less.pids);
      if (canLimit('memoryMb') && outOfMemory === 'program') expect(await useMemory(box, 270)).toBe('SIGKILL');
    });

    test('to less memory than is in use is refused, and no process is killed', async () => {
      const oomKills = async () => (await fixture.usageOf(box.id))?.oomKills;
      const before = await oomKills();
      await expect(bind({ limits: { memoryMb: 8 } })).rejects.toMatchObject({ code: 'unavailable' });
      expect(await oomKills()).toBe(before);
      expect((await runInBox(box, ['true'])).status).toBe('ok');
    });

    test('to the internet opens public addresses only; back to none closes all of them', async (context) => {
      if (!canConnect()) {
        await expect(bind({ network: 'internet' })).rejects.toMatchObject({ code: 'unavailable' });
        await expectNoNetwork(box);
        return;
      }
      const other = await start({ takesNetwork: true });
      context.onTestFinished(() => end(other.id));
      const canDisconnect = driver().capabilities.bind.networks.includes('none');
      const disconnect = async () => {
        await bind({ network: 'none' });
        await expectNoNetwork(box);
      };
      if (canDisconnect) await disconnect();
      await bind({ network: 'internet' });
      await driver().bind(other.id, { network: 'internet' }, deadline());
      await bind({ network: 'internet' });
      await expectPublicAddressesOnly(box, other, reachesInternet);
      if (canDisconnect) await disconnect();
      else await expect(bind({ network: 'none' })).rejects.toMatchObject({ code: 'unavailable' });
    });

    test('to the internet is refused for an instance that was not created for it, if the driver needs that', async (context) => {
      const other = await start();
      context.onTestFinished(() => end(other.id));
      const change = driver().bind(other.id, { network: 'internet' }, deadline());
      if (driver().kind === 'local' && canConnect()) return await change;
      await expect(change).rejects.toMatchObject({ code: canConnect() ? 'conflict' : 'unavailable' });
      await expectNoNetwork(other);
    });
  });
};
