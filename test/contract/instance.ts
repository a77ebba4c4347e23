import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, describe, expect, test } from 'vitest';
import { CodeBoxError } from '#contract';
import type { InstanceSpec } from '../../services/gateway/drivers/driver.ts';
import { evalInBox, runInBox, waitForBox } from './box-client.ts';
import { type DriverContract, type Fixture, limits } from './fixture.ts';

/** The lifecycle of instances. */
export const describeInstances = (contract: DriverContract, fixture: Fixture): void => {
  const { deadline, deadlineMs, end, spec, usageOf } = fixture;

  describe('an instance', () => {
    // gVisor needs four times the work for a start.
    const isQuick = contract.kernel === 'host';
    const made: string[] = [];
    const make = async (more: Partial<InstanceSpec> = {}) => {
      const instance = await fixture.start(more);
      made.push(instance.id);
      return instance;
    };
    const expectNothingLeft = async () => {
      expect(await fixture.driver().list(deadline())).toEqual([]);
      expect(await contract.leftovers()).toEqual(fixture.before());
    };
    afterEach(async () => {
      for (const id of made.splice(0)) await end(id);
    });

    test('is listed, and found again by a new driver of the same deployment', async () => {
      const box = await make();
      const again = await contract.create();
      const running = { id: box.id, state: 'running', address: box.address };
      expect(await again.inspect(box.id, deadline())).toEqual(running);
      expect(await again.list(deadline())).toEqual([running]);
      await waitForBox(box, deadlineMs);
      await again.destroy(box.id, deadline());
      expect(await fixture.driver().inspect(box.id, deadline())).toBeUndefined();
    });

    test('is created once, however often and concurrently its spec is requested; another spec is a conflict', async () => {
      const driver = fixture.driver();
      const wanted = spec();
      made.push(wanted.id);
      const again = await contract.create();
      const requests = [driver.create(wanted, deadline()), driver.create({ ...wanted }, deadline())];
      const [first] = await Promise.all(requests.map(async (one) => fixture.served(await one)));
      if (first === undefined) throw new Error('the instance was not created');
      await evalInBox(first, "print(open('/tmp/first', 'w').write('x'))");
      const running = { ...first, state: 'running' };
      for (const one of [driver, again]) expect(await one.create(wanted, deadline())).toEqual(running);
      expect(await evalInBox(first, "import json; print(json.dumps(open('/tmp/first').read()))")).toBe('x');
      expect(await driver.list(deadline())).toEqual([running]);
      const others = [
        { ...wanted, network: 'none', token: 'another' } as const,
        { ...wanted, limits: { ...limits, pids: 65 } },
      ];
      for (const other of others)
        await expect(again.create(other, deadline())).rejects.toMatchObject({ code: 'conflict' });
      expect((await driver.inspect(wanted.id, deadline()))?.state).toBe('running');
    });

    test('is out of reach of another deployment, which can have an instance of the same id', async (context) => {
      const box = await make();
      const foreign = await contract.createForeign();
      context.onTestFinished(() => foreign.destroy(box.id, deadline()));
      expect(await foreign.inspect(box.id, deadline())).toBeUndefined();
      expect(await foreign.list(deadline())).toEqual([]);
      expect(await foreign.usage([box.id], deadline())).toEqual(new Map());
      await expect(foreign.bind(box.id, {}, deadline())).rejects.toMatchObject({ code: 'not_found' });
      await foreign.destroy(box.id, deadline());
      await foreign.create(spec({ id: box.id }), deadline());
      expect((await foreign.list(deadline())).map(({ id }) => id)).toEqual([box.id]);
      await foreign.destroy(box.id, deadline());
      expect((await runInBox(box, ['true'])).status).toBe('ok');
    });

    test('stops when frozen, and continues when thawed', async () => {
      const { capabilities, freeze, thaw } = fixture.driver();
      expect([freeze !== undefined, thaw !== undefined]).toEqual(Array(2).fill(capabilities.freeze));
      if (!freeze || !thaw) return;
      const box = await make();
      const { id } = box;
      const ticking =
        'while true; do date +%N > /mnt/data/tick.new; mv /mnt/data/tick.new /mnt/data/tick; sleep 0.02; done';
      await runInBox(box, ['bash', '-c', `(${ticking}) > /dev/null 2>&1 & sleep 0.2`]);
      const busy = await usageOf(id);
      await freeze(id, deadline());
      await freeze(id, deadline());
      const frozen = await usageOf(id);
      await sleep(300);
      // The threads of gVisor itself continue; the loop would have used most of the time.
      expect(((await usageOf(id))?.cpuMs ?? 0) - (frozen?.cpuMs ?? 0)).toBeLessThan(50);
      expect((await fixture.driver().inspect(id, deadline()))?.state).toBe('running');
      await thaw(id, deadline());
      await thaw(id, deadline());
      expect((await runInBox(box, ['true'])).status).toBe('ok');
      if (contract.measures) expect((await usageOf(id))?.cpuMs).toBeGreaterThan(busy?.cpuMs ?? 0);
    });

    test('can be destroyed while it is frozen', async () => {
      const { freeze } = fixture.driver();
      if (!freeze) return;
      const { id } = await make();
      await freeze(id, deadline());
      await end(id);
      expect(await fixture.driver().inspect(id, deadline())).toBeUndefined();
    });

    test('reports how it ended when its main process was killed, and a watch is notified', async ({
      expect,
      onTestFinished,
    }) => {
      const { watch } = fixture.driver();
      const hints: (string | undefined)[] = [];
      const watching = watch?.((id) => hints.push(id));
      onTestFinished(() => watching?.[Symbol.dispose]());
      const { id } = await make();
      hints.length = 0;
      await contract.kill(id);
      if (watch)
        await expect.poll(() => hints.some((of) => of === undefined || of === id), { timeout: deadlineMs }).toBe(true);
      expect(await fixture.waitUntilEnded(id)).toMatchObject({ state: 'ended', why: { code: 'exit' } });
      expect(await usageOf(id)).toBeUndefined();
    });

    test('of a missing image reports the image as the cause, and leaves nothing behind', async ({ expect }) => {
      const driver = fixture.driver();
      if (!driver.capabilities.images) return;
      const wanted = spec({ image: 'codebox-box:there-is-no-such-tag' });
      const found = await driver.create(wanted, deadline()).catch((error: unknown) => error);
      if (found instanceof Error) expect(found).toMatchObject({ why: { code: 'image' } });
      else {
        const seen = expect.poll(() => driver.inspect(wanted.id, deadline()), { timeout: deadlineMs });
        await seen.toMatchObject({ why: { code: 'image' } });
      }
      await end(wanted.id);
      await expectNothingLeft();
    });

    test('leaves nothing behind, however often it is destroyed', async () => {
      const box = await make();
      const bomb = 'setsid sleep 600 & (trap "" TERM INT HUP; sleep 600) & disown -a';
      await runInBox(box, ['bash', '-c', bomb]).catch(() => undefined);
      await Promise.all([end(box.id), end(box.id)]);
      await end(box.id);
      await expectNothingLeft();
    });

    test('that could not be created leaves nothing behind', async ({ expect }) => {
      const given = [AbortSignal.abort(), ...(isQuick ? [1, 5, 15, 40] : [1, 40]).map((ms) => AbortSignal.timeout(ms))];
      const tried = await Promise.allSettled(given.map((ended) => fixture.driver().create(spec(), ended)));
      // The progress of each call depends on timing: one that returned in time has created a whole instance.
      expect(tried[0]?.status).toBe('rejected');
      for (const one of tried) if (one.status === 'fulfilled') await end(one.value.id);
      await expect.poll(() => fixture.driver().list(deadline()), { timeout: 20_000 }).toEqual([]);
      await expect.poll(() => contract.leftovers(), { timeout: 20_000 }).toEqual(fixture.before());
    });

    test('that is destroyed during its creation is gone for both callers, and leaves nothing behind', async () => {
      const ends = (isQuick ? [0, 5, 20, 60, 150] : [5, 150]).map(async (ms) => {
        const wanted = spec();
        const making = fixture
          .driver()
          .create(wanted, deadline())
          .then(
            () => 'made',
            (error: unknown) => (error instanceof CodeBoxError ? error.code : String(error)),
          );
        await sleep(ms);
        await end(wanted.id);
        return making;
      });
      // The progress of each call depends on timing.
      for (const outcome of await Promise.all(ends)) expect(['gone', 'made']).toContain(outcome);
      await expectNothingLeft();
    });

    test('can be created concurrently with others', async () => {
      const crowd = isQuick ? 6 : 3;
      const wanted = Array.from({ length: crowd }, () => spec());
      const all = await Promise.all(wanted.map((one) => fixture.driver().create(one, deadline())));
      expect(new Set(all.map(({ id }) => id)).size).toBe(crowd);
      await Promise.all(all.map(({ id }) => end(id)));
      await expectNothingLeft();
    });
  });
};
