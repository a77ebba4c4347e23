import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import type { CgroupFolders } from './cgroup.ts';
import { checkCgroupLimits, writeCgroupLimits } from './cgroup-limits.ts';

const MiB = 1024 * 1024;
const none = { memory: undefined, cpu: undefined, cpuacct: undefined, pids: undefined, unified: undefined };
const limits = { cpus: 0.75, memoryMb: 300, pids: 50 };

let folder: string;
const write = (name: string, text: string | number) => writeFile(join(folder, name), String(text));
const read = (name: string) => readFile(join(folder, name), 'utf8');

/** Creates a folder with the files of a control group, filled as by the kernel. */
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'codebox-cgroup-'));
  await write('memory.current', 100 * MiB);
  await write('memory.stat', `anon 1\ninactive_file ${40 * MiB}\n`);
  await write('memory.swap.max', 'max');
  await write('memory.memsw.limit_in_bytes', 9_223_372_036_854_771_712n.toString());
});
afterEach(() => rm(folder, { recursive: true, force: true }));

const unified = (): CgroupFolders => ({ ...none, unified: folder });
const legacy = (): CgroupFolders => ({ ...none, memory: folder, cpu: folder, cpuacct: folder, pids: folder });

test.each([
  ['one hierarchy', unified],
  ['a hierarchy per controller', legacy],
])('written limits of %s are confirmed, and a differing one is detected', async (_, folders) => {
  await writeCgroupLimits(folders(), limits);
  await checkCgroupLimits(folders(), limits);
  for (const wanted of [{ cpus: 0.7 }, { memoryMb: 301 }, { pids: 51 }]) {
    await expect(checkCgroupLimits(folders(), wanted)).rejects.toMatchObject({ code: 'unavailable' });
  }
  await write('memory.swap.max', 4096);
  await write('memory.memsw.limit_in_bytes', 301 * MiB);
  await expect(checkCgroupLimits(folders(), { memoryMb: 300 })).rejects.toMatchObject({ code: 'unavailable' });
  await checkCgroupLimits(folders(), { pids: 50 });
});

test.each([
  ['one hierarchy', unified],
  ['a hierarchy per controller', legacy],
])('a limit of %s that cannot be read or is unset is not confirmed', async (_, folders) => {
  await expect(checkCgroupLimits(folders(), { pids: 50 })).rejects.toMatchObject({ code: 'unavailable' });
  await write('pids.max', 'max');
  await expect(checkCgroupLimits(folders(), { pids: 50 })).rejects.toMatchObject({ code: 'unavailable' });
});

test('one hierarchy refuses a memory limit below the usage, for which the kernel would kill', async () => {
  await write('memory.max', 300 * MiB);
  await expect(writeCgroupLimits(unified(), { memoryMb: 59 })).rejects.toMatchObject({ code: 'unavailable' });
  expect(await read('memory.max')).toBe(String(300 * MiB));
  await writeCgroupLimits(unified(), { memoryMb: 61 });
  expect(await read('memory.max')).toBe(String(61 * MiB));
  expect(await read('memory.swap.max')).toBe('0');
});
