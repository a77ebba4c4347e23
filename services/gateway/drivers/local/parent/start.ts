import { spawn } from 'node:child_process';
import { copyFile, readFile, writeFile } from 'node:fs/promises';
import { basename } from 'node:path';
import { nextLine } from '../../parent/line.ts';
import type { Parent } from '../../parent/parent.ts';
import { hostParents, type ParentProcesses, useSharedParent } from '../../parent/shared-parent.ts';
import { type ParentFiles, parentCommand } from './command.ts';

const maxErrorLength = 2000;

/**
 * Returns a function that finds or starts the parent of boxes that are created from these files, whose content `revision` stands for. Gateways with
 * other data folders find it too.
 */
export const findLocalParent = (files: ParentFiles, revision: string, parentsFolder = hostParents) => {
  // Their system files are in other folders, whose names are hashes of their content.
  const facts = [revision, parentCommand({ ...files, etc: basename(files.etc) }, '')];
  return (signal: AbortSignal): Promise<Parent> => useSharedParent(parentsFolder, facts, processesOf(files), signal);
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
    let errors = '';
    child.stderr.on('data', (text) => {
      errors = `${errors}${text}`.slice(-maxErrorLength);
    });
    // A program that is missing ends the streams too.
    child.on('error', () => {});
    try {
      await writeFile(groupFile(folder), String(child.pid));
      await nextLine(child.stdout, signal);
    } catch (cause) {
      killGroup(child.pid);
      throw new Error(`the parent of boxes did not start: ${errors.trim()}`, { cause });
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

/** Does nothing when no process of the group is left. */
const killGroup = (id: number | undefined): void => {
  try {
    if (id !== undefined && id > 1) process.kill(-id, 'SIGKILL');
  } catch (error) {
    if (!(error instanceof Error && 'code' in error && error.code === 'ESRCH')) throw error;
  }
};
