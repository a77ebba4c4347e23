import { mkdir, open, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { z } from 'zod';
import { CodeBoxError } from '#contract';
import { listNames } from '../host/folder-list.ts';
import { type ProcessIdentity, parseStat } from './processes.ts';

const recordSchema = z.object({
  /** Stands for the spec that it was made from. */
  spec: z.string(),
});

/** What is kept of an instance beside its processes. */
export type InstanceRecord = z.infer<typeof recordSchema>;

const maxLogBytes = 4096;

/**
 * The folders `<parent>/<id>` in which the driver keeps what it must know after a restart. Only the driver and the sandbox's
 * launcher write there; no box sees them.
 */
export const createInstanceFolders = async (parent: string) => {
  await mkdir(parent, { recursive: true, mode: 0o700 });
  const path = (id: string) => `${parent}/${id}`;
  const readText = (id: string, name: string) => readFile(`${path(id)}/${name}`, 'utf8').catch(() => undefined);

  return {
    path,
    /** Throws `conflict` when there is one: this is what claims an id. */
    async make(id: string, record: InstanceRecord): Promise<void> {
      try {
        await mkdir(path(id));
      } catch (cause) {
        throw new CodeBoxError('conflict', 'There is an instance with this id already.', { cause });
      }
      await mkdir(`${path(id)}/mnt`);
      await writeFile(`${path(id)}/record.new`, JSON.stringify(record));
      await rename(`${path(id)}/record.new`, `${path(id)}/record.json`);
    },
    /** Undefined for one that a crash left half made. */
    async record(id: string): Promise<InstanceRecord | undefined> {
      const text = await readText(id, 'record.json');
      return text === undefined ? undefined : recordSchema.parse(JSON.parse(text));
    },
    /** The process that stands for the sandbox outside, once it has started. */
    async launcher(id: string): Promise<ProcessIdentity | undefined> {
      return parseStat((await readText(id, 'stat')) ?? '');
    },
    /** PID 1 of the sandbox, as `launch` has found it. */
    async init(id: string): Promise<ProcessIdentity | undefined> {
      return parseStat((await readText(id, 'init')) ?? '');
    },
    /** What bubblewrap tells: its first process inside, as seen from the host, and in the end the exit code. */
    async status(id: string): Promise<{ init?: number; exitCode?: number }> {
      const text = (await readText(id, 'status')) ?? '';
      const init = /"child-pid": (\d+)/.exec(text)?.[1];
      const exitCode = /"exit-code": (\d+)/.exec(text)?.[1];
      return {
        ...(init === undefined ? {} : { init: Number(init) }),
        ...(exitCode === undefined ? {} : { exitCode: Number(exitCode) }),
      };
    },
    /** The first lines that the sandbox printed, to explain a start that failed. They may be the box's own words. */
    async log(logFile: string): Promise<string> {
      try {
        const file = await open(logFile);
        const { buffer, bytesRead } = await file.read(Buffer.alloc(maxLogBytes), 0, maxLogBytes, 0);
        await file.close();
        return buffer.subarray(0, bytesRead).toString();
      } catch {
        // It never came so far.
        return '';
      }
    },
    remove: (id: string): Promise<void> => rm(path(id), { recursive: true, force: true }),
    list: () => listNames(parent),
  };
};

export type InstanceFolders = Awaited<ReturnType<typeof createInstanceFolders>>;
