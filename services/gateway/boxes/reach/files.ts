import type { Readable } from 'node:stream';
import type { z } from 'zod';
import {
  CodeBoxError,
  encodePath,
  type FileEntry,
  type FileOperation,
  fileEntrySchema,
  folderSchema,
  type SearchPage,
  type SearchQuery,
} from '#contract';
import { readAnswer } from '../../box-server/answer.ts';
import type { RawAnswer } from '../../box-server/client.ts';
import { type FileHead, readFileHead, readRefusedSize } from '../../box-server/file-head.ts';
import type { BoxRef } from '../box-ref.ts';
import type { UsableBox } from '../life/access.ts';
import type { Activity } from '../life/activity.ts';
import { checkReachable } from '../life/fetch-policy.ts';
import type { Lifecycle } from '../life/lifecycle.ts';

/** What has to be true of a file, each as RFC 9110, section 13, has the value of the field of that name. */
export interface Conditions {
  ifMatch?: string | undefined;
  ifNoneMatch?: string | undefined;
  ifModifiedSince?: string | undefined;
  ifUnmodifiedSince?: string | undefined;
}

export interface ReadOptions {
  /** One range as RFC 9110, section 14.2, has it, such as `bytes=0-99`; anything else is ignored. */
  range?: string | undefined;
  conditions?: (Conditions & { ifRange?: string | undefined }) | undefined;
  /** Which page of a folder, and how deep. */
  page?: { limit?: number | undefined; cursor?: string | undefined; depth?: number | undefined } | undefined;
  /** A folder as one archive of all that is in it. */
  archive?: 'tar' | 'zip' | undefined;
}

export interface WriteOptions {
  conditions?: Conditions | undefined;
  /** Where it is known: the box then refuses early what has no room. */
  sizeBytes?: number | undefined;
  signal?: AbortSignal;
}

export type { FileHead };

export type Folder = z.output<typeof folderSchema>;

/** A page of a folder, or bytes: `body` has to be read to its end or destroyed, and has none when nothing has changed. */
export type Opened = { kind: 'folder'; page: Folder } | (FileHead & { kind: 'file' | 'archive'; body: Readable });

/** The file does not have the bytes of the range. */
export class NoSuchRange extends CodeBoxError {
  /** What the file has; undefined when the box does not say. */
  readonly sizeBytes: number | undefined;

  constructor(sizeBytes: number | undefined) {
    const errors = [{ pointer: '/headers/Range', detail: 'lies behind the end of the file' }];
    super('range_not_satisfiable', 'The file has no such bytes.', { errors });
    this.sizeBytes = sizeBytes;
  }
}

/** The box ends its work after this, or after what a fetch asks for; the gateway waits a little longer for it to say so. */
const operationMs = 600_000;
const fetchSeconds = 60;
const graceMs = 15_000;

/**
 * Files of a box, streamed both ways; the gateway holds no more of them than a socket's buffer. `path` is relative to the working
 * folder, which is ''.
 */
export const createFiles = ({ lifecycle, activity }: { lifecycle: Pick<Lifecycle, 'use'>; activity: Activity }) => {
  const held = async (ref: BoxRef, call: (server: UsableBox['server']) => Promise<RawAnswer>): Promise<RawAnswer> => {
    const { server } = await lifecycle.use(ref);
    const release = activity.hold(ref.box);
    try {
      const answer = await call(server);
      answer.body.once('close', release);
      return answer;
    } catch (error) {
      release();
      throw error;
    }
  };

  const read = async (ref: BoxRef, method: 'GET' | 'HEAD', path: string, options: ReadOptions) => {
    const { page, archive, range, conditions } = options;
    const search = toSearch({ ...page, as: archive });
    const headers = toHeaders({ ...conditions, range });
    const answer = await held(ref, (server) => server.file(method, encodePath(path) + search, headers));
    try {
      if (answer.status === 416) throw new NoSuchRange(readRefusedSize(answer));
      return { head: readFileHead(answer), body: answer.body };
    } catch (error) {
      answer.body.destroy();
      throw error;
    }
  };

  /** The bytes of a file or an archive, or a page of a folder. Throws `NoSuchRange`, and `precondition_failed`. */
  const open = async (ref: BoxRef, path: string, options: ReadOptions = {}): Promise<Opened> => {
    const { head, body } = await read(ref, 'GET', path, options);
    const { kind } = head;
    if (kind === 'folder') return { kind, page: await readAnswer(folderSchema, body) };
    if (head.isUnchanged) body.resume();
    return { ...head, kind, body };
  };

  return {
    /** What `open` with the same options would give. `lengthBytes` of a folder is that of its page in JSON. */
    async stat(ref: BoxRef, path: string, options: Omit<ReadOptions, 'range'> = {}): Promise<FileHead> {
      const { head, body } = await read(ref, 'HEAD', path, options);
      body.resume();
      return head;
    },

    open,

    /** A page of a folder. Throws `invalid_request` where there is something else. */
    async list(ref: BoxRef, path: string, page: NonNullable<ReadOptions['page']> = {}): Promise<Folder> {
      const opened = await open(ref, path, { page });
      if (opened.kind === 'folder') return opened.page;
      opened.body.destroy();
      throw new CodeBoxError('invalid_request', 'There is no folder at this path.');
    },

    /** Writes a file whole or not at all; `isNew` when there was none. Throws `precondition_failed` and `disk_full`. */
    async put(
      ref: BoxRef,
      path: string,
      body: Readable,
      { conditions, sizeBytes, signal }: WriteOptions = {},
    ): Promise<{ entry: FileEntry; isNew: boolean }> {
      const headers = toHeaders({ ...conditions, contentLength: sizeBytes?.toString() });
      const answer = await held(ref, (server) => server.file('PUT', encodePath(path), headers, body, signal));
      return { entry: await readAnswer(fileEntrySchema, answer.body), isNew: answer.status === 201 };
    },

    /** Removes a file, or a folder with all that is in it. Throws `precondition_failed`. */
    async remove(ref: BoxRef, path: string, conditions: Conditions = {}): Promise<void> {
      const answer = await held(ref, (server) => server.file('DELETE', encodePath(path), toHeaders(conditions)));
      answer.body.destroy();
    },

    /** Files by name, lines by content. */
    async search(ref: BoxRef, query: SearchQuery, leave: AbortSignal): Promise<SearchPage> {
      const { server } = await lifecycle.use(ref);
      return await server.search(toSearch(query), leave);
    },

    /** Makes, moves, copies, extracts or fetches. When `leave` fires, what has begun is given up and leaves nothing. */
    async operate(
      ref: BoxRef,
      operation: FileOperation,
      leave: AbortSignal,
    ): Promise<{ entry: FileEntry; isNew: boolean }> {
      const { box: row, server } = await lifecycle.use(ref);
      if (operation.op === 'fetch') checkReachable(operation.url, row.network, '/url');
      const ms = operation.op === 'fetch' ? (operation.timeoutSeconds ?? fetchSeconds) * 1000 : operationMs;
      const late = AbortSignal.timeout(ms + graceMs);
      const release = activity.hold(ref.box);
      try {
        return await server.operateOnFiles(operation, AbortSignal.any([leave, late]));
      } catch (cause) {
        if (late.aborted) throw new CodeBoxError('timeout', 'The box did not finish in time.', { cause });
        throw cause;
      } finally {
        release();
      }
    },
  };
};

export type Files = ReturnType<typeof createFiles>;

const given = (values: object): [string, string][] =>
  Object.entries(values).flatMap(([name, value]) => (value === undefined ? [] : [[name, String(value)]]));

const toSearch = (query: object): string => {
  const search = new URLSearchParams(given(query));
  return search.size > 0 ? `?${search}` : '';
};

/** `ifNoneMatch` as `if-none-match`. */
const toHeaders = (fields: object): Record<string, string> =>
  Object.fromEntries(
    given(fields).map(([name, value]) => [name.replaceAll(/[A-Z]/g, (mark) => `-${mark.toLowerCase()}`), value]),
  );
