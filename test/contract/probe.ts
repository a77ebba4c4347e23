import { readFile } from 'node:fs/promises';

/** Python source that prints, as JSON, what a program in a box can see and do. */
export const probe = await readFile(new URL('probe.py', import.meta.url), 'utf8');

/** The output of the probe. */
export interface Probe {
  uid: number;
  groups: number[];
  user: string;
  status: Record<string, string>;
  rootIsReadOnly: boolean;
  calls: Record<string, string>;
  device: string;
  fifo: string;
  setuid: string;
  families: Record<string, string>;
  netfilter: string;
  interfaces: string[];
  writes: Record<string, string>;
  devices: string[];
  processes: number;
  openFiles: [number, number];
  coreBytes: [number, number];
  setIdFiles: string[];
  hostFiles: string[];
  loginUid: 'fixed' | 'free' | 'none';
  environment: Record<string, string>;
}
