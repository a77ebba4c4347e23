import { Readable } from 'node:stream';
import { CodeBoxError } from '#contract';
import type { BoxRef } from '../../boxes/box-ref.ts';
import type { Files } from '../../boxes/reach/files.ts';
import { toAbsolute, toBoxPath } from './homes.ts';

/** The largest file that is read as text. */
const maxBytes = 4 * 1024 * 1024;

/** Files that are read and written whole, as text. */
export const createTextFiles = (files: Files) => ({
  /** Reads a text of at most `maxBytes`. Throws `unsupported_media_type` for bytes that are not UTF-8. */
  async read(ref: BoxRef, name: string): Promise<{ text: string; etag: string | undefined }> {
    const opened = await files.open(ref, toBoxPath(name));
    if (opened.kind === 'folder') throw new CodeBoxError('not_found', 'File not found');
    const chunks: Buffer[] = [];
    let size = 0;
    for await (const chunk of opened.body as AsyncIterable<Buffer>) {
      size += chunk.length;
      if (size > maxBytes) throw new CodeBoxError('too_large', `The file is larger than ${maxBytes} bytes.`);
      chunks.push(chunk);
    }
    try {
      // The mark at the start of some texts is part of them, or it would be lost when they are written back.
      const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });
      return { text: decoder.decode(Buffer.concat(chunks)), etag: opened.etag };
    } catch (cause) {
      throw new CodeBoxError('unsupported_media_type', `Unsupported binary file type (${size} bytes)`, { cause });
    }
  },

  /** Writes a file; with `ifMatch` only while it has that tag. */
  async write(ref: BoxRef, name: string, text: string, ifMatch?: string): Promise<{ path: string; size: number }> {
    const bytes = Buffer.from(text);
    const conditions = ifMatch === undefined ? {} : { conditions: { ifMatch } };
    await files.put(ref, toBoxPath(name), Readable.from([bytes]), { sizeBytes: bytes.length, ...conditions });
    return { path: toAbsolute(name), size: bytes.length };
  },
});
