import { isUtf8 } from 'node:buffer';
import type { ResourceLink } from '@modelcontextprotocol/server';
import { getMimeType } from 'hono/utils/mime';
import { boxPathSchema, CodeBoxError } from '#contract';
import type { BoxRef } from '../../boxes/box-ref.ts';
import { workingFolder } from '../../boxes/life/working-folder.ts';
import type { Files } from '../../boxes/reach/files.ts';

const root = `file://${workingFolder}/`;
/** A larger file is refused: it is held in memory as a whole. */
const maxBytes = 8 * 1024 * 1024;

/** The template of the URIs of files. */
export const fileTemplate = `${root}{+path}`;

/** Returns the URI of a file. */
export const toUri = (path: string): string => root + path.split('/').map(encodeURIComponent).join('/');

/** Returns the path in a URI. Throws `not_found` for a URI outside of the working folder. */
export const toPath = (uri: string): string => {
  const path = uri.startsWith(root) && URL.canParse(uri) ? decode(uri.slice(root.length)) : '';
  if (boxPathSchema.safeParse(path).success) return path;
  throw new CodeBoxError('not_found', `There is no resource ${uri}.`);
};

const decode = (text: string): string => {
  try {
    return decodeURIComponent(text);
  } catch {
    return '';
  }
};

/** Returns the type of a file by its name; undefined for an unknown one. */
const mimeTypeOf = (path: string): string | undefined => getMimeType(path)?.split(';', 1)[0];

/** Returns a link to a file, for a client to read when it needs the contents. */
export const linkTo = (path: string): ResourceLink => {
  const mimeType = mimeTypeOf(path);
  const name = path.split('/').at(-1) ?? path;
  return { type: 'resource_link', uri: toUri(path), name, ...(mimeType !== undefined && { mimeType }) };
};

export interface FileContents {
  bytes: Buffer;
  /** The bytes as text if they are UTF-8. */
  text: string | undefined;
  mimeType: string;
}

/** Reads a whole file. Throws `too_large` for one of over 8 MiB, and `invalid_request` for a folder. */
export const readFile = async (files: Files, ref: BoxRef, path: string): Promise<FileContents> => {
  const opened = await files.open(ref, path);
  if (opened.kind === 'folder') throw new CodeBoxError('invalid_request', `${path} is a folder; list it instead.`);
  const chunks: Buffer[] = [];
  let size = 0;
  try {
    for await (const chunk of opened.body as AsyncIterable<Buffer>) {
      size += chunk.length;
      if (size > maxBytes) throw new CodeBoxError('too_large', `${path} has over ${maxBytes} bytes.`);
      chunks.push(chunk);
    }
  } catch (cause) {
    opened.body.destroy();
    if (cause instanceof CodeBoxError) throw cause;
    throw new CodeBoxError('unavailable', 'The box closed the connection.', { cause });
  }
  const bytes = Buffer.concat(chunks);
  const text = isUtf8(bytes) && !bytes.includes(0) ? bytes.toString() : undefined;
  const mimeType = mimeTypeOf(path) ?? (text === undefined ? 'application/octet-stream' : 'text/plain');
  return { bytes, text, mimeType };
};
