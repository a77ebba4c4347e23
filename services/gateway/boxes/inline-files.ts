import { Readable } from 'node:stream';
import { CodeBoxError, type InlineFile } from '#contract';
import type { BoxServerClient } from '../box-server/client.ts';
import { checkReachable } from './fetch-policy.ts';

/** A path as it goes into a URL: each segment percent-encoded. */
export const encodePath = (path: string): string => path.split('/').map(encodeURIComponent).join('/');

/** Throws `invalid_request` for a file whose URL a box with this network can never reach. */
export const checkInlineFiles = (files: readonly InlineFile[], network: string): void => {
  for (const [index, { url }] of files.entries())
    if (url !== undefined) checkReachable(url, network, `/files/${index}/url`);
};

/** Writes files that came inside a JSON body, in their order; what has a URL is fetched from inside the box. */
export const writeInlineFiles = async (
  server: BoxServerClient,
  files: readonly InlineFile[],
  signal: AbortSignal,
): Promise<void> => {
  for (const [index, file] of files.entries()) {
    if (file.url === undefined) await writeOne(server, file);
    else await fetchOne(server, file.url, file.path, index, signal);
  }
};

const writeOne = async (server: BoxServerClient, file: InlineFile): Promise<void> => {
  const bytes = file.base64 === undefined ? Buffer.from(file.text ?? '') : Buffer.from(file.base64, 'base64');
  const headers = { 'content-length': String(bytes.length) };
  const answer = await server.file('PUT', encodePath(file.path), headers, Readable.from([bytes]));
  answer.body.destroy();
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
