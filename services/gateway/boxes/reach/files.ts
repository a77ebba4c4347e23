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
import type { LookAtFile, RawResponse } from '../../box-server/client.ts';
import { type FileHead, readFileHead, readRefusedSize } from '../../box-server/file-head.ts';
import { readResponse } from '../../box-server/protocol/response.ts';
import type { BoxRef } from '../box-ref.ts';
import type { Access } from '../life/access.ts';
import type { Activity } from '../life/activity.ts';
import type { ReachableBox } from '../life/directory.ts';
import { checkReachable } from '../life/fetch-policy.ts';

/** Preconditions on a file. Each value is that of the header field of its name in RFC 9110, section 13. */
export interface Conditions {
  ifMatch?: string | undefined;
  ifNoneMatch?: string | undefined;
  ifModifiedSince?: string | undefined;
  ifUnmodifiedSince?: string | undefined;
}

export interface ReadOptions {
  /** One range in the form of RFC 9110, section 14.2, such as `bytes=0-99`; anything else is ignored. */
  range?: string | undefined;
  conditions?: (Conditions & { ifRange?: string | undefined }) | undefined;
  /** The page of a folder listing, and how deep it goes. */
  page?: { limit?: number | undefined; cursor?: string | undefined; depth?: number | undefined } | undefined;
  /** Requests a folder as one archive of all its contents. */
  archive?: 'tar' | 'zip' | undefined;
}

export interface WriteOptions {
  conditions?: Conditions | undefined;
  /** The size, if known: the box then refuses early when there is no room. */
  sizeBytes?: number | undefined;
  /** What to note about the file: printable ASCII, with names that a header can have, which become lower case. */
  metadata?: Record<string, string> | undefined;
  signal?: AbortSignal;
}

export type { FileHead };

export type Folder = z.output<typeof folderSchema>;

/** A page of a folder, or bytes. `body` has to be read to its end or destroyed; it is empty when the file is unchanged. */
export type Opened = { kind: 'folder'; page: Folder } | (FileHead & { kind: 'file' | 'archive'; body: Readable });

/** Thrown for a range that the file does not have. */
export class NoSuchRange extends CodeBoxError {
  /** The size of the file; undefined when the box does not report it. */
  readonly sizeBytes: number | undefined;

  constructor(sizeBytes: number | undefined) {
    const errors = [{ pointer: '/headers/Range', detail: 'lies behind the end of the file' }];
    super('range_not_satisfiable', 'The file has no such bytes.', { errors });
    this.sizeBytes = sizeBytes;
  }
}

/** The box stops an operation after this time, or after the timeout of a fetch. The gateway waits a little longer for its report. */
const operationMs = 600_000;
const fetchSeconds = 60;
const graceMs = 15_000;

/**
 * Reads and writes files of a box. They are streamed: the gateway buffers no more than a socket does. `path` is relative to the
 * working folder, which is '', or an absolute path in the box; callers refuse what their API does not have.
 */
export const createFiles = ({ access, activity }: { access: Pick<Access, 'use'>; activity: Activity }) => {
  const held = async (
    ref: BoxRef,
    call: (server: ReachableBox['server']) => Promise<RawResponse>,
  ): Promise<RawResponse> => {
    const { server } = await access.use(ref);
    const release = activity.hold(ref.box);
    try {
      const response = await call(server);
      response.body.once('close', release);
      return response;
    } catch (error) {
      release();
      throw error;
    }
  };

  const read = async (ref: BoxRef, method: 'GET' | 'HEAD', path: string, options: ReadOptions) => {
    const { page, archive, range, conditions } = options;
    const search = toSearch({ ...page, as: archive });
    const headers = toHeaders({ ...conditions, range });
    const response = await held(ref, (server) => server.file(method, encodePath(path) + search, headers));
    try {
      if (response.status === 416) throw new NoSuchRange(readRefusedSize(response));
      return { head: readFileHead(response), body: response.body };
    } catch (error) {
      response.body.destroy();
      throw error;
    }
  };

  /** Opens a file or an archive for reading, or returns a page of a folder. Throws `NoSuchRange` and `precondition_failed`. */
  const open = async (ref: BoxRef, path: string, options: ReadOptions = {}): Promise<Opened> => {
    const { head, body } = await read(ref, 'GET', path, options);
    const { kind } = head;
    if (kind === 'folder') return { kind, page: await readResponse(folderSchema, body) };
    if (head.isUnchanged) body.resume();
    return { ...head, kind, body };
  };

  return {
    /** Returns the head that `open` with the same options would return. `lengthBytes` of a folder is that of its page in JSON. */
    async stat(ref: BoxRef, path: string, options: Omit<ReadOptions, 'range'> = {}): Promise<FileHead> {
      const { head, body } = await read(ref, 'HEAD', path, options);
      body.resume();
      return head;
    },

    open,

    /** Returns a page of a folder. Throws `invalid_request` when there is no folder at the path. */
    async list(ref: BoxRef, path: string, page: NonNullable<ReadOptions['page']> = {}): Promise<Folder> {
      const opened = await open(ref, path, { page });
      if (opened.kind === 'folder') return opened.page;
      opened.body.destroy();
      throw new CodeBoxError('invalid_request', 'There is no folder at this path.');
    },

    /** Writes a file atomically; `isNew` when there was none before. Throws `precondition_failed` and `disk_full`. */
    async put(
      ref: BoxRef,
      path: string,
      body: Readable,
      { conditions, sizeBytes, metadata = {}, signal }: WriteOptions = {},
    ): Promise<{ entry: FileEntry; isNew: boolean }> {
      const noted = Object.entries(metadata).map(([name, value]) => [`x-metadata-${name}`, value]);
      const headers = {
        ...toHeaders({ ...conditions, contentLength: sizeBytes?.toString() }),
        ...Object.fromEntries(noted),
      };
      const response = await held(ref, (server) => server.file('PUT', encodePath(path), headers, body, signal));
      return { entry: await readResponse(fileEntrySchema, response.body), isNew: response.status === 201 };
    },

    /** Removes a file, or a folder with all its contents. Throws `precondition_failed`. */
    async remove(ref: BoxRef, path: string, conditions: Conditions = {}): Promise<void> {
      const response = await held(ref, (server) => server.file('DELETE', encodePath(path), toHeaders(conditions)));
      response.body.destroy();
    },

    /** Finds files by name, or lines by content. */
    async search(ref: BoxRef, query: SearchQuery, leave: AbortSignal): Promise<SearchPage> {
      const { server } = await access.use(ref);
      return await server.search(toSearch(query), leave);
    },

    /** Looks, makes, moves, copies, extracts or fetches. When `leave` fires, the operation is canceled and leaves nothing behind. */
    async operate(
      ref: BoxRef,
      operation: FileOperation | LookAtFile,
      leave: AbortSignal,
    ): Promise<{ entry: FileEntry; isNew: boolean }> {
      const { box: row, server } = await access.use(ref);
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

const definedEntries = (values: object): [string, string][] =>
  Object.entries(values).flatMap(([name, value]) => (value === undefined ? [] : [[name, String(value)]]));

const toSearch = (query: object): string => {
  const search = new URLSearchParams(definedEntries(query));
  return search.size > 0 ? `?${search}` : '';
};

/** Converts names such as `ifNoneMatch` to `if-none-match`. */
const toHeaders = (fields: object): Record<string, string> =>
  Object.fromEntries(
    definedEntries(fields).map(([name, value]) => [
      name.replaceAll(/[A-Z]/g, (mark) => `-${mark.toLowerCase()}`),
      value,
    ]),
  );
