import type { BindableLimits, InstanceUsage, Limits } from '../driver.ts';

/** How the processes of a box are held together: stopped, counted, limited and ended as one. */
export interface Groups {
  make(id: string, limits: Limits): Promise<void>;
  /** Changes limits of what runs; returns when they are in force. */
  limit(id: string, limits: Partial<BindableLimits>): Promise<void>;
  joinFiles(id: string): string[];
  visible(id: string): { source: string; target: string }[];
  running(id: string): Promise<boolean>;
  freeze(id: string): Promise<void>;
  thaw(id: string): Promise<void>;
  /** Ends all; returns when they are gone. Idempotent. */
  kill(id: string): Promise<void>;
  remove(id: string): Promise<void>;
  list(): Promise<string[]>;
  usage(id: string): Promise<InstanceUsage | undefined>;
}
