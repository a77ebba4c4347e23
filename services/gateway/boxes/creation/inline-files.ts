import { Readable } from 'node:stream';
import { CodeBoxError, encodePath, hasCode, type InlineFile } from '#contract';
import type { BoxServerClient, SmallFile } from '../../box-server/client.ts';
import { checkReachable } from '../life/fetch-policy.ts';

/** Throws `invalid_request` for a file whose URL a box with this network cannot reach. */
export const checkInlineFiles = (files: readonly InlineFile[], network: string): void => {
  for (const [index, { url }] of files.entries())
    if (url !== undefined) checkReachable(url, network, `/files/${index}/url`);
};

/** The most that is sent in one request with the environment, in characters of JSON. */
const maxSmallLength = 256 * 1024;

/** Converts files to be sent with the environment of a box; returns undefined when they are too large or have to be fetched. */
export const toSmallFiles = (files: readonly InlineFile[]): SmallFile[] | undefined => {
  const small: SmallFile[] = [];
  let length = 0;
  for (const { path, text, base64, url } of files) {
    const content = base64 ?? text ?? '';
    length += path.length + content.length;
    if (url !== undefined || length > maxSmallLength) return undefined;
    small.push({ path, base64: base64 ?? Buffer.from(content).toString('base64') });
  }
  return small;
};

/** Writes the files of a JSON body in their order. The box itself fetches those with a URL. */
export const writeInlineFiles = async (
  server: BoxServerClient,
  files: readonly InlineFile[],
  signal: AbortSignal,
): Promise<void> => {
  for (const [index, file] of files.entries()) {
    if (file.url === undefined) await writeOne(server, file, index, signal);
    else await fetchOne(server, file.url, file.path, index, signal);
  }
};

const writeOne = async (
  server: BoxServerClient,
  file: InlineFile,
  index: number,
  signal: AbortSignal,
): Promise<void> => {
  const bytes = file.base64 === undefined ? Buffer.from(file.text ?? '') : Buffer.from(file.base64, 'base64');
  const headers = { 'content-length': String(bytes.length) };
  try {
    const response = await server.file('PUT', encodePath(file.path), headers, Readable.from([bytes]), signal);
    response.body.destroy();
  } catch (cause) {
    // The path is invalid, or it conflicts with an earlier file.
    if (!(hasCode(cause, 'conflict') || hasCode(cause, 'invalid_request'))) throw cause;
    const errors = [{ pointer: `/files/${index}/path`, detail: cause.message }];
    throw new CodeBoxError('invalid_request', cause.message, { cause, errors });
  }
};

const fetchOne = async (server: BoxServerClient, url: string, path: string, index: number, signal: AbortSignal) => {
  try {
    await server.operateOnFiles({ op: 'fetch', url, path }, signal);
  } catch (cause) {
    if (!(cause instanceof CodeBoxError) || cause.code === 'unavailable') throw cause;
    // The box reports a pointer into one operation; the caller sent a list.
    const errors = cause.errors.map(({ pointer, detail }) => ({ pointer: `/files/${index}${pointer}`, detail }));
    throw new CodeBoxError(cause.code, cause.message, { cause, errors });
  }
};
