import type { BindableLimits, InstanceUsage, Limits } from '../../driver.ts';

/** Manages the processes of a box as a group: freezes, measures, limits and kills them together. */
export interface Groups {
  make(id: string, limits: Limits): Promise<void>;
  /** Changes the limits of a running box; resolves when they are in force. */
  limit(id: string, limits: Partial<BindableLimits>): Promise<void>;
  joinFiles(id: string): string[];
  visible(id: string): { source: string; target: string }[];
  running(id: string): Promise<boolean>;
  freeze(id: string): Promise<void>;
  thaw(id: string): Promise<void>;
  /** Kills all processes; resolves when they are gone. Idempotent. */
  kill(id: string): Promise<void>;
  remove(id: string): Promise<void>;
  list(): Promise<string[]>;
  usage(id: string): Promise<InstanceUsage | undefined>;
}
