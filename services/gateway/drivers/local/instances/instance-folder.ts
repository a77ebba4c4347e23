import { mkdir, open, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { z } from 'zod';
import { CodeBoxError } from '#contract';
import { listNames } from '../../host/folder-list.ts';
import { type ProcessIdentity, parseStat } from './processes.ts';

const recordSchema = z.object({
  /** The digest of the spec that the instance was created from. */
  spec: z.string(),
});

/** The stored record of an instance. */
export type InstanceRecord = z.infer<typeof recordSchema>;

const maxLogBytes = 4096;

/**
 * The folders `<parent>/<id>` with the state of instances that the driver needs after a restart. Only the driver and the launcher of the
 * sandbox write there; boxes cannot see them.
 */
export const createInstanceFolders = async (parent: string) => {
  await mkdir(parent, { recursive: true, mode: 0o700 });
  const path = (id: string) => `${parent}/${id}`;
  const readText = (id: string, name: string) => readFile(`${path(id)}/${name}`, 'utf8').catch(() => undefined);

  return {
    path,
    /** Creates the folder, which claims the id. Throws `conflict` when the folder exists. */
    async make(id: string, record: InstanceRecord): Promise<void> {
      try {
        await mkdir(path(id));
      } catch (cause) {
        throw new CodeBoxError('conflict', 'An instance with this id exists already.', { cause });
      }
      await mkdir(`${path(id)}/mnt`);
      await writeFile(`${path(id)}/record.new`, JSON.stringify(record));
      await rename(`${path(id)}/record.new`, `${path(id)}/record.json`);
    },
    /** Reads the record; undefined for an instance whose creation a crash interrupted. */
    async record(id: string): Promise<InstanceRecord | undefined> {
      const text = await readText(id, 'record.json');
      return text === undefined ? undefined : recordSchema.parse(JSON.parse(text));
    },
    /** Returns the host process of the sandbox, once it has started. */
    async launcher(id: string): Promise<ProcessIdentity | undefined> {
      return parseStat((await readText(id, 'stat')) ?? '');
    },
    /** Returns PID 1 of the sandbox, as recorded by `launch`. */
    async init(id: string): Promise<ProcessIdentity | undefined> {
      return parseStat((await readText(id, 'init')) ?? '');
    },
    /** Reads the status of bubblewrap: the host's process id of its first process inside and, at the end, the exit code. */
    async status(id: string): Promise<{ init?: number; exitCode?: number }> {
      const text = (await readText(id, 'status')) ?? '';
      const init = /"child-pid": (\d+)/.exec(text)?.[1];
      const exitCode = /"exit-code": (\d+)/.exec(text)?.[1];
      return {
        ...(init === undefined ? {} : { init: Number(init) }),
        ...(exitCode === undefined ? {} : { exitCode: Number(exitCode) }),
      };
    },
    /** Reads the first output of the sandbox, to explain a failed start. It may be written by the box and is not trusted. */
    async log(logFile: string): Promise<string> {
      try {
        const file = await open(logFile);
        const { buffer, bytesRead } = await file.read(Buffer.alloc(maxLogBytes), 0, maxLogBytes, 0);
        await file.close();
        return buffer.subarray(0, bytesRead).toString();
      } catch {
        // The sandbox never created its log.
        return '';
      }
    },
    remove: (id: string): Promise<void> => rm(path(id), { recursive: true, force: true }),
    list: () => listNames(parent),
  };
};

export type InstanceFolders = Awaited<ReturnType<typeof createInstanceFolders>>;
