import type { Context } from 'hono';
import { CodeBoxError, type FileEntry } from '#contract';
import { type MultipartOptions, readMultipart } from '../../http/bodies/multipart.ts';
import { openUpload } from '../../http/bodies/uploads.ts';
import type { BoxRef } from '../boxes/box-ref.ts';
import type { Files } from '../boxes/reach/files.ts';
import { sendFile } from '../http/downloads.ts';
import type { Env } from '../http/env.ts';

/** Writes each file of a form to the path that is its name. Returns their entries. */
export const receiveFiles = async (
  c: Context<Env>,
  files: Files,
  ref: BoxRef,
  options: Pick<MultipartOptions, 'onField'> = {},
): Promise<FileEntry[]> => {
  using upload = openUpload(c);
  const { body, signal } = upload;
  const written: FileEntry[] = [];
  const type = c.req.header('content-type') ?? '';
  await readMultipart(
    body,
    type,
    async (path, content) => {
      const { entry } = await files.put(ref, path, content, { signal });
      written.push(entry);
    },
    signal,
    options,
  );
  return written;
};

/** Sends a file of a box. Throws `not_found` for a folder. */
export const respondWithFile = async (
  c: Context<Env>,
  files: Files,
  ref: BoxRef,
  path: string,
  headers: Record<string, string>,
): Promise<Response> => {
  const found = await files.open(ref, path);
  if (found.kind === 'folder') throw new CodeBoxError('not_found', 'There is a folder at this path, not a file.');
  return sendFile(c, found, { 'content-type': 'application/octet-stream', ...headers }, found.body);
};
