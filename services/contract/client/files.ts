import { z } from 'zod';
import { type FileEntry, fileEntrySchema, folderSchema } from '../files/files.ts';
import type { FileOperation } from '../files/operations.ts';
import { encodePath } from '../files/path-bytes.ts';
import { searchPageSchema } from '../files/search.ts';
import { type WatchEvent, watchEventSchema } from '../files/watch.ts';
import { type Counting, followEvents } from './events.ts';
import { type CallOptions, pathOf, type RequestBody, type Transport } from './transport.ts';

/** A range of bytes of a file, both ends inclusive; without `end`, to the end of the file. */
export interface ByteRange {
  start: number;
  end?: number;
}

export interface ReadOptions extends CallOptions {
  range?: ByteRange;
  /** Succeeds only when the file still has this ETag; otherwise rejects with `precondition_failed`. */
  ifMatch?: string;
}

export interface ListOptions extends CallOptions {
  /** Includes everything below the folder, each folder before its contents. */
  recursive?: boolean;
  /** How many levels to list. Default 1. */
  depth?: number;
}

export interface OverwriteOptions extends CallOptions {
  /** Replaces an existing entry; otherwise that rejects with `conflict`. */
  overwrite?: boolean;
}

type Extract = FileOperation & { op: 'extract' };
type Fetch = FileOperation & { op: 'fetch' };

export interface ExtractOptions extends OverwriteOptions, Pick<Extract, 'format'> {
  /** The target folder. Default: the working folder. */
  to?: string;
}

export interface FetchOptions extends CallOptions, Pick<Fetch, 'headers' | 'timeoutSeconds' | 'maxBytes'> {}

export interface SearchOptions {
  name?: string;
  content?: string;
  /** The folder to search. Default: the working folder. */
  path?: string;
  /** Default true. */
  caseSensitive?: boolean;
}

export interface WatchOptions extends CallOptions {
  /** The folder to watch. Default: the working folder. */
  path?: string;
  /** Includes what is in its folders. Default true. */
  recursive?: boolean;
  /** The last version that the caller has seen. */
  after?: number;
}

/** A watch that is resumed begins with a `ready` that its reader has already seen. */
const byVersion: Counting<WatchEvent> = {
  position: ({ version }) => version,
  isRepeated: ({ type, version }, seen) => type === 'ready' && version === seen,
  isLast: ({ type }) => type === 'end',
};

export interface WriteOptions extends CallOptions {
  /** Overwrites only this version of the file; otherwise rejects with `precondition_failed`. */
  ifMatch?: string;
  /** Writes only when there is no such file yet; otherwise rejects with `precondition_failed`. */
  create?: boolean;
}

const transferSeconds = 3600;
const uploadSchema = z.object({ items: z.array(fileEntrySchema) });

const filePath = (box: string, path: string): string => `${pathOf('boxes', box, 'files')}/${encodePath(path)}`;

const readCall = (box: string, path: string, { range, ifMatch, ...options }: ReadOptions) => ({
  path: filePath(box, path),
  headers: { range: range && `bytes=${range.start}-${range.end ?? ''}`, 'if-match': ifMatch },
  deadlineSeconds: transferSeconds,
  options,
});

/** Files of a box. Paths are relative to `/mnt/data`, its working folder. */
export const createFiles = (transport: Transport) => {
  const operate = (box: string, operation: FileOperation, options: CallOptions, deadlineSeconds = transferSeconds) =>
    transport.json(fileEntrySchema, {
      method: 'POST',
      path: pathOf('boxes', box, 'files'),
      json: operation,
      deadlineSeconds,
      options,
    });

  return {
    /** The whole file, or a range of it, in memory. */
    read: (box: string, path: string, options: ReadOptions = {}): Promise<Uint8Array<ArrayBuffer>> =>
      transport.bytes(readCall(box, path, options)),

    /** The file as UTF-8 text. */
    readText: async (box: string, path: string, options: ReadOptions = {}): Promise<string> =>
      new TextDecoder().decode(await transport.bytes(readCall(box, path, options))),

    /**
     * Resolves with the response, whose body streams the file; its headers include `ETag`, `Content-Length` and
     * `Content-Range`.
     */
    open: (box: string, path: string, options: ReadOptions = {}): Promise<Response> =>
      transport.open({ ...readCall(box, path, options), deadlineSeconds: 60 }),

    /** Writes a file atomically; missing parent folders are created. */
    write: (box: string, path: string, content: RequestBody, options: WriteOptions = {}): Promise<FileEntry> => {
      const { ifMatch, create, ...rest } = options;
      return transport.json(fileEntrySchema, {
        method: 'PUT',
        path: filePath(box, path),
        body: content,
        headers: {
          'content-type': 'application/octet-stream',
          'if-match': ifMatch,
          'if-none-match': create ? '*' : undefined,
        },
        deadlineSeconds: transferSeconds,
        options: rest,
      });
    },

    /** Writes several files in one request, one after the other. */
    upload: async (box: string, files: Readonly<Record<string, string | Blob>>, options?: CallOptions) => {
      const form = new FormData();
      for (const [path, content] of Object.entries(files)) form.append('file', new Blob([content]), path);
      const { items } = await transport.json(uploadSchema, {
        method: 'POST',
        path: pathOf('boxes', box, 'files'),
        body: form,
        deadlineSeconds: transferSeconds,
        options,
      });
      return items;
    },

    /** The entries of a folder by name, or everything below it; without a path, those of the working folder. */
    list: (box: string, path = '', { recursive, depth, ...options }: ListOptions = {}) =>
      transport.items(folderSchema, { path: filePath(box, path), query: { recursive, depth }, options }),

    /** Streams a folder as one archive. */
    archive: (box: string, path: string, as: 'tar' | 'zip', options?: CallOptions): Promise<Response> =>
      transport.open({ path: filePath(box, path), query: { as }, options }),

    /** Creates a folder and its missing parents. */
    makeFolder: (box: string, path: string, options: CallOptions = {}): Promise<FileEntry> =>
      operate(box, { op: 'mkdir', path }, options, 60),

    /** Renames a file or a folder. */
    move: (
      box: string,
      from: string,
      to: string,
      { overwrite, ...options }: OverwriteOptions = {},
    ): Promise<FileEntry> => operate(box, { op: 'move', from, to, overwrite }, options),

    /** Copies a file, or a folder with its contents. */
    copy: (
      box: string,
      from: string,
      to: string,
      { overwrite, ...options }: OverwriteOptions = {},
    ): Promise<FileEntry> => operate(box, { op: 'copy', from, to, overwrite }, options),

    /** Extracts an archive, whole or not at all. */
    extract: (
      box: string,
      path: string,
      { to, format, overwrite, ...options }: ExtractOptions = {},
    ): Promise<FileEntry> => operate(box, { op: 'extract', path, to, format, overwrite }, options),

    /** Makes the box download a URL, under its own network policy. */
    fetch: (box: string, url: string, path: string, settings: FetchOptions = {}): Promise<FileEntry> => {
      const { headers, timeoutSeconds, maxBytes, ...options } = settings;
      const operation = { op: 'fetch', url, path, headers, timeoutSeconds, maxBytes } as const;
      return operate(box, operation, options, 60 + (timeoutSeconds ?? 60));
    },

    /** Finds files by name (a glob), lines by content (a regular expression), or lines in files with such names. */
    search: (box: string, { ...query }: SearchOptions, options?: CallOptions) =>
      transport.items(searchPageSchema, { path: `${pathOf('boxes', box)}/files:search`, query, options }),

    /**
     * The changes below a folder as they happen, from version `after` on or from now on; a watch that is cut is
     * resumed. A `reset` means that changes are missing: list the folder anew.
     */
    watch: (box: string, settings: WatchOptions = {}): AsyncGenerator<WatchEvent, void, undefined> => {
      const { path, recursive, after: from, ...options } = settings;
      const open = (after: number | undefined) =>
        transport.open({ path: `${pathOf('boxes', box)}/files:watch`, query: { path, recursive, after }, options });
      return followEvents<WatchEvent>({
        schema: watchEventSchema,
        counting: byVersion,
        open,
        ...(from !== undefined && { after: from }),
        ...(options.signal && { signal: options.signal }),
      });
    },

    /** Removes a file, or a folder with its contents. */
    delete: (box: string, path: string, { ifMatch, ...options }: ReadOptions = {}): Promise<void> =>
      transport.done({
        method: 'DELETE',
        path: filePath(box, path),
        headers: { 'if-match': ifMatch },
        options,
      }),
  };
};
