import { availableParallelism } from 'node:os';
import type { Capabilities, MachineCapacity } from '../driver.ts';

/** The share of a machine's memory that instances may use; the rest is for the system, the gateway and PostgreSQL. */
const memoryShare = 0.8;
const MiB = 1024 * 1024;

/** Returns the capacity for instances of a machine with this memory. */
export const shareOfMachine = (memoryBytes: number): MachineCapacity => ({
  memoryMb: Math.floor((memoryBytes * memoryShare) / MiB),
});

/** Returns how many instances a host should start concurrently: a start takes a whole CPU except while it waits for the kernel or a daemon. */
export const hostStarts = (isForked: boolean): Pick<Capabilities, 'startsAtOnce' | 'warmStartsAtOnce'> => {
  const startsAtOnce = 2 * availableParallelism();
  // A box whose server is forked is ready so soon that callers need no slots of their own.
  return { startsAtOnce, warmStartsAtOnce: isForked ? startsAtOnce : startsAtOnce / 2 };
};
