import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Driver, InstanceSpec } from '../../services/gateway/drivers/driver.ts';
import { askBox, runInBox, type ServedInstance } from './box-client.ts';
import { cpuQuota } from './cpu-quota.ts';
import { expectPublicAddressesOnly } from './reach.ts';

/** What the part of the contract about `bind` needs. */
export interface BindingContract {
  driver: () => Driver;
  start: (more?: Partial<InstanceSpec>) => Promise<ServedInstance>;
  /** The id, on the host, of a process in the control group of an instance. */
  hostPid: (id: string) => Promise<number>;
}

const made = { cpus: 0.9, memoryMb: 300, diskMb: 96, pids: 64 };
const more = { cpus: 1, memoryMb: 500, pids: 96 };
const less = { cpus: 0.7, memoryMb: 250, pids: 40 };
const deadline = () => AbortSignal.timeout(60_000);

/** How a program ends that touches this much memory. */
const useMemory = async ({ address }: ServedInstance, megabytes: number): Promise<string | null> => {
  const code = `b = bytearray(${megabytes} << 20)\nfor i in range(0, len(b), 4096): b[i] = 1`;
  return (await runInBox(address, ['python', '-c', code])).signal;
};

/** How many processes can be there before one is refused. */
const countForks = ({ address }: ServedInstance): Promise<number> =>
  askBox(
    address,
    [
      'import os, time',
      'made = []',
      'try:',
      '  while len(made) < 1000:',
      '    pid = os.fork()',
      '    if pid == 0: time.sleep(60); os._exit(0)',
      '    made.append(pid)',
      'except OSError: pass',
      'for pid in made: os.kill(pid, 9); os.waitpid(pid, 0)',
      'print(len(made))',
    ].join('\n'),
  );

const interfaces = ({ address }: ServedInstance): Promise<string[]> =>
  askBox(address, 'import json, socket; print(json.dumps([name for _, name in socket.if_nameindex()]))');

/** What every driver guarantees of a change to a running instance: it is in force, or it is refused. */
export const describeBinding = ({ driver, start, hostPid }: BindingContract): void => {
  describe('a change to a running instance', () => {
    let box: ServedInstance;
    const end = (id: string) => driver().destroy(id, deadline());
    const bind = (change: Parameters<Driver['bind']>[1]) => driver().bind(box.id, change, deadline());
    const canLimit = () => driver().capabilities.bind.limits.length > 0;
    const canConnect = () => driver().capabilities.bind.networks.includes('internet');

    beforeAll(async () => {
      box = await start({ limits: made, takesNetwork: true });
    });
    afterAll(() => end(box.id));

    test('of limits is in force when it is told, upwards and downwards', async () => {
      if (!canLimit()) {
        await expect(bind({ limits: { memoryMb: 500 } })).rejects.toMatchObject({ code: 'unavailable' });
        return;
      }
      const pid = await hostPid(box.id);
      expect(await useMemory(box, 350)).toBe('SIGKILL');
      await bind({ limits: more });
      expect(await useMemory(box, 350)).toBeNull();
      expect(await useMemory(box, 550)).toBe('SIGKILL');
      expect(await cpuQuota(pid)).toBeCloseTo(more.cpus);
      const forks = await countForks(box);
      expect(forks).toBeGreaterThan(made.pids);
      expect(forks).toBeLessThan(more.pids);
      await bind({ limits: less });
      expect(await useMemory(box, 270)).toBe('SIGKILL');
      expect(await cpuQuota(pid)).toBeCloseTo(less.cpus);
      expect(await countForks(box)).toBeLessThan(less.pids);
    });

    test('leaves what it does not name as it is', async () => {
      if (!canLimit()) return;
      await bind({ limits: less });
      await bind({ limits: { pids: made.pids } });
      await bind({});
      expect(await cpuQuota(await hostPid(box.id))).toBeCloseTo(less.cpus);
      expect(await countForks(box)).toBeGreaterThan(less.pids);
      expect(await useMemory(box, 270)).toBe('SIGKILL');
    });

    test('to less memory than is in use is refused, and nothing is killed for it', async () => {
      if (!canLimit()) return;
      const oomKills = async () => (await driver().usage([box.id], deadline())).get(box.id)?.oomKills;
      const before = await oomKills();
      await expect(bind({ limits: { memoryMb: 8 } })).rejects.toMatchObject({ code: 'unavailable' });
      expect(await oomKills()).toBe(before);
      expect((await runInBox(box.address, ['true'])).status).toBe('ok');
    });

    test('to the internet gives what a box has that was made so; back to none, nothing is left', async (context) => {
      if (!canConnect()) {
        await expect(bind({ network: 'internet' })).rejects.toMatchObject({ code: 'unavailable' });
        expect(await interfaces(box)).toEqual(['lo']);
        return;
      }
      const other = await start({ takesNetwork: true });
      context.onTestFinished(() => end(other.id));
      await bind({ network: 'none' });
      expect(await interfaces(box)).toEqual(['lo']);
      await bind({ network: 'internet' });
      await driver().bind(other.id, { network: 'internet' }, deadline());
      await bind({ network: 'internet' });
      await expectPublicAddressesOnly(box, other);
      await bind({ network: 'none' });
      expect(await interfaces(box)).toEqual(['lo']);
    });

    test('to the internet is refused to one that was not made for it', async (context) => {
      const other = await start();
      context.onTestFinished(() => end(other.id));
      const refused = driver().bind(other.id, { network: 'internet' }, deadline());
      await expect(refused).rejects.toMatchObject({ code: 'unavailable' });
      expect(await interfaces(other)).toEqual(['lo']);
    });
  });
};
