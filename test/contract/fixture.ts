import { afterAll, beforeAll } from 'vitest';
import type { Driver, Instance, InstanceSpec, Placement } from '../../services/gateway/drivers/driver.ts';
import { type ServedInstance, token, waitForBox, waitUntilRunning } from './box-client.ts';

/** The facts and operations that the suite needs of a driver, wherever its instances live. */
export interface DriverContract {
  name: string;
  image: string;
  /** Creates a driver on the same data and deployment each time, as a restarted gateway does. */
  create(): Promise<Driver>;
  /** Creates a driver of another deployment in the same place. */
  createForeign(): Promise<Driver>;
  /** Lists the resources of instances of this deployment, as `kind name`. Waits for those that disappear by themselves a moment later. */
  leftovers(): Promise<string[]>;
  /** Kills the main process of an instance behind the driver's back, like a crash. */
  kill(id: string): Promise<void>;
  /** The kernel of boxes: gVisor handles system calls itself and refuses others than the host's seccomp filter does. */
  kernel: 'host' | 'gvisor';
  /** Whether images/box/seccomp.json filters the system calls of boxes. */
  hasSeccompFilter: boolean;
  /** Whether the offending program or the whole box is killed when a box exceeds its memory limit. */
  outOfMemory: 'program' | 'box';
  /** Whether boxes with a network reach the public addresses that this host reaches. */
  reachesInternet: boolean;
  /** Whether the driver reports the usage of instances, with whatever delay. */
  measures: boolean;
  placement?: Placement;
  /** Bound of one driver call and of the start of an instance; a minute by default. */
  deadlineMs?: number;
}

// Too little memory for the box server to prepare kernels in advance.
export const limits = { cpus: 1, memoryMb: 380, diskMb: 96, pids: 64 };
let count = 0;

/** The driver under test and helpers around it. Call it in the body of `describe`: it registers hooks. */
export const createFixture = (contract: DriverContract) => {
  const { deadlineMs = 60_000 } = contract;
  let driver: Driver;
  let before: string[];
  const deadline = () => AbortSignal.timeout(deadlineMs);
  const end = (id: string) => driver.destroy(id, deadline());
  const endAll = async () => {
    for (const { id } of await driver.list(deadline())) await end(id);
  };
  const spec = (more: Partial<InstanceSpec> = {}): InstanceSpec => {
    count += 1;
    const id = `c${process.pid}-${count}`;
    const { image, placement } = contract;
    return { id, token, image, limits, network: 'none', ...(placement && { placement }), ...more };
  };
  /** Waits until the box server of an instance is healthy. */
  const served = async (made: Instance): Promise<ServedInstance> => {
    const instance = await waitUntilRunning(driver, made, deadlineMs);
    await waitForBox(instance, deadlineMs);
    return instance;
  };

  beforeAll(async () => {
    driver = await contract.create();
    await endAll();
    before = await contract.leftovers();
  });
  afterAll(endAll);

  return {
    deadlineMs,
    deadline,
    driver: () => driver,
    /** The leftovers before the first instance was created. */
    before: () => before,
    spec,
    served,
    end,
    async start(more: Partial<InstanceSpec> = {}) {
      return await served(await driver.create(spec(more), deadline()));
    },
    async usageOf(id: string) {
      return (await driver.usage(['no-such', id], deadline())).get(id);
    },
    /** Returns an instance once it has ended or is gone, or its state at the deadline. */
    async waitUntilEnded(id: string): Promise<Instance | undefined> {
      const signal = deadline();
      for (;;) {
        const found = await driver.inspect(id, deadline());
        if ((found?.state ?? 'ended') === 'ended' || signal.aborted) return found;
        await new Promise((done) => setTimeout(done, 50));
      }
    },
  };
};

export type Fixture = ReturnType<typeof createFixture>;
