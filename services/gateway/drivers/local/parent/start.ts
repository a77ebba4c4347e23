import { spawn } from 'node:child_process';
import { copyFile, readFile, readlink, stat, writeFile } from 'node:fs/promises';
import { basename } from 'node:path';
import { untilStarted } from '../../parent/line.ts';
import type { Parent } from '../../parent/parent.ts';
import { type ParentProcesses, useSharedParent } from '../../parent/shared-parent.ts';
import { type ParentFiles, parentCommand } from './command.ts';

/**
 * Finds or starts the parent of boxes that are created from these files, whose content `revision` stands for. Gateways with other data
 * folders find it too.
 */
export const findLocalParent = async (
  files: ParentFiles,
  revision: string,
  parentsFolder: string,
  signal: AbortSignal,
): Promise<Parent> => {
  // This cache is rewritten whenever libraries are installed, and a parent has loaded some of them.
  const libraries = await stat('/etc/ld.so.cache').catch(() => undefined);
  // Ids of processes and paths mean something else in other namespaces.
  const namespaces = await Promise.all(['pid', 'mnt'].map((kind) => readlink(`/proc/self/ns/${kind}`)));
  // The system files of others are in other folders, whose names are hashes of their content.
  const command = parentCommand({ ...files, etc: basename(files.etc) }, '');
  const facts = [revision, command, namespaces, libraries?.mtimeMs];
  return await useSharedParent(parentsFolder, facts, processesOf(files), signal);
};

/** Runs parents as processes that outlive this one. */
const processesOf = (files: ParentFiles): ParentProcesses => ({
  async start(folder, signal) {
    await copyFile(files.filter, `${folder}/seccomp.bpf`);
    const [file = '', ...args] = parentCommand(files, folder);
    // bubblewrap and the parent are in a process group of their own.
    const child = spawn(file, args, {
      detached: true,
      stdio: ['ignore', 'pipe', 'pipe'],
      cwd: '/',
      env: { PATH: '/usr/local/bin:/usr/bin:/bin', LC_ALL: 'C' },
    });
    // A program that is missing ends the streams too.
    child.on('error', () => {});
    try {
      await writeFile(groupFile(folder), String(child.pid));
      await untilStarted(child.stdout, child.stderr, signal);
    } catch (error) {
      killGroup(child.pid);
      throw error;
    } finally {
      child.unref();
      child.stdout.destroy();
      child.stderr.destroy();
    }
  },
  async end(folder) {
    killGroup(Number(await readFile(groupFile(folder), 'utf8')));
  },
});

const groupFile = (folder: string): string => `${folder}/process-group`;

/** Kills a process group, unless all of its processes have ended. */
const killGroup = (id: number | undefined): void => {
  try {
    if (id !== undefined && id > 1) process.kill(-id, 'SIGKILL');
  } catch (error) {
    if (!(error instanceof Error && 'code' in error && error.code === 'ESRCH')) throw error;
  }
};
