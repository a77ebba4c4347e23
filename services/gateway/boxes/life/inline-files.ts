import { Readable } from 'node:stream';
import { CodeBoxError, encodePath, hasCode, type InlineFile } from '#contract';
import type { BoxServerClient, SmallFile } from '../../box-server/client.ts';
import { checkReachable } from './fetch-policy.ts';

/** Throws `invalid_request` for a file whose URL a box with this network can never reach. */
export const checkInlineFiles = (files: readonly InlineFile[], network: string): void => {
  for (const [index, { url }] of files.entries())
    if (url !== undefined) checkReachable(url, network, `/files/${index}/url`);
};

/** What goes along with the environment in one request, in characters of JSON. */
const maxSmallLength = 256 * 1024;

/** The files as they go along with the environment of a box; undefined when that is too much, or something has to be fetched. */
export const toSmallFiles = (files: readonly InlineFile[]): SmallFile[] | undefined => {
  const small: SmallFile[] = [];
  let length = 0;
  for (const { path, text, base64, url } of files) {
    const given = base64 ?? text ?? '';
    length += path.length + given.length;
    if (url !== undefined || length > maxSmallLength) return undefined;
    small.push({ path, base64: base64 ?? Buffer.from(given).toString('base64') });
  }
  return small;
};

/** Writes files that came inside a JSON body, in their order; what has a URL is fetched from inside the box. */
export const writeInlineFiles = async (
  server: BoxServerClient,
  files: readonly InlineFile[],
  signal: AbortSignal,
): Promise<void> => {
  for (const [index, file] of files.entries()) {
    if (file.url === undefined) await writeOne(server, file, index);
    else await fetchOne(server, file.url, file.path, index, signal);
  }
};

const writeOne = async (server: BoxServerClient, file: InlineFile, index: number): Promise<void> => {
  const bytes = file.base64 === undefined ? Buffer.from(file.text ?? '') : Buffer.from(file.base64, 'base64');
  const headers = { 'content-length': String(bytes.length) };
  try {
    const answer = await server.file('PUT', encodePath(file.path), headers, Readable.from([bytes]));
    answer.body.destroy();
  } catch (cause) {
    // It cannot be beside those before it, or as what its path says.
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
    // The box knows one operation; the caller gave a list.
    const errors = cause.errors.map(({ pointer, detail }) => ({ pointer: `/files/${index}${pointer}`, detail }));
    throw new CodeBoxError(cause.code, cause.message, { cause, errors });
  }
};
