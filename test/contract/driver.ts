import { describe, expect, test } from 'vitest';
import { describeBinding } from './binding.ts';
import { describeConfinement } from './confinement.ts';
import { createFixture, type DriverContract, type Fixture, limits } from './fixture.ts';
import { describeInstances } from './instance.ts';
import { describeLimits } from './limits.ts';
import { expectPublicAddressesOnly } from './network.ts';
import { describeUsage } from './usage.ts';
import { describeVolumes } from './volumes.ts';

const describeOthers = ({ reachesInternet }: DriverContract, fixture: Fixture): void => {
  const { deadline, end, spec, start } = fixture;

  test('a box on the internet reaches public addresses, but not the host, metadata services or other boxes', async (context) => {
    const driver = fixture.driver();
    if (!driver.capabilities.networks.includes('internet')) {
      const refused = driver.create(spec({ network: 'internet' }), deadline());
      await expect(refused).rejects.toMatchObject({ code: 'unavailable' });
      return;
    }
    const [one, other] = [await start({ network: 'internet' }), await start({ network: 'internet' })];
    context.onTestFinished(async () => void (await Promise.all([end(one.id), end(other.id)])));
    await expectPublicAddressesOnly(one, other, reachesInternet);
  });

  test('methods throw not_found for a missing instance, or return nothing where that is enough', async () => {
    const driver = fixture.driver();
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
};

const parts = {
  confinement: describeConfinement,
  limits: describeLimits,
  instances: describeInstances,
  usage: describeUsage,
  binding: describeBinding,
  volumes: describeVolumes,
  others: describeOthers,
};
export type ContractPart = keyof typeof parts;
export const contractParts = Object.keys(parts) as ContractPart[];

/** The guarantees of every driver, wherever its instances live, tested with real boxes: all of them or some parts. */
export const runDriverContract = (contract: DriverContract, names: readonly ContractPart[] = contractParts): void => {
  describe(contract.name, () => {
    const fixture = createFixture(contract);
    for (const name of names) parts[name](contract, fixture);
  });
};
