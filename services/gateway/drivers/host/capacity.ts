import { availableParallelism } from 'node:os';
import type { MachineCapacity } from '../driver.ts';

/** Share of a machine's memory that instances may be promised: the rest is for the system, the gateway and PostgreSQL. */
const memoryShare = 0.8;
const MiB = 1024 * 1024;

/** What instances may use together of a machine with so much memory. */
export const shareOfMachine = (memoryBytes: number): MachineCapacity => ({
  memoryMb: Math.floor((memoryBytes * memoryShare) / MiB),
});

/** How many instances a host starts at once: each takes a whole processor but for moments in which it waits for the kernel or a daemon. */
export const hostStartsAtOnce = (): number => 2 * availableParallelism();
