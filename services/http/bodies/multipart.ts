import { once } from 'node:events';
import type { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { Busboy } from '@fastify/busboy';
import type { z } from 'zod';
import { CodeBoxError, newPathSchema } from '#contract';
import { wording } from '../faults/wording.ts';

const maxFiles = 1000;
/** Parts that are not files are skipped, which takes time too. */
const maxParts = 2 * maxFiles;
/** Further fields, and longer values, are cut off: callers look for a few short ones. */
const maxFields = 20;
const maxFieldBytes = 256;

export interface MultipartOptions {
  /** The paths of files that are accepted. */
  pathSchema?: z.ZodType<string>;
  /** A part of this name is a file even without a filename; its path is then ''. */
  fileField?: string;
  /** Called for the first fields that are not files. */
  onField?: (name: string, value: string) => void;
}

/**
 * Reads a multipart/form-data body; each file part is streamed to `write` with its filename as path, one after the
 * other. Throws `invalid_request` for a path that `pathSchema` refuses, too many parts or a body without files, and the
 * signal's reason; files written before stay. The body itself stays open, so that the response can still be sent.
 */
export const readMultipart = async (
  body: Readable,
  contentType: string,
  write: (path: string, content: Readable) => Promise<void>,
  signal: AbortSignal,
  { pathSchema = newPathSchema, fileField, onField }: MultipartOptions = {},
): Promise<void> => {
  const parser = openParser(contentType, fileField, onField ? maxFields : 0);
  if (onField) parser.on('field', onField);
  let written = 0;
  let queue = Promise.resolve();
  const failure = new AbortController();
  const stop = AbortSignal.any([failure.signal, signal]);
  const parts = new Set<Readable>();
  // The parser would leave the parts of an interrupted body open, and end those of a truncated one as if they were complete.
  parser.on('error', (error: Error) => {
    for (const part of parts) part.destroy(error);
  });
  parser.on('file', (_field, content, filename) => {
    parts.add(content);
    // Its reader receives the error, and the parser fails with the same one, which is thrown below.
    content.on('error', () => {});
    const path = pathSchema.safeParse(filename ?? '', { error: wording });
    if (!path.success) content.resume();
    queue = queue.then(async () => {
      if (!path.success) throw badPart(written, path.error.issues[0]?.message ?? 'is not a path');
      if (content.errored) throw content.errored;
      await write(path.data, content);
      parts.delete(content);
      written += 1;
    });
    queue.catch((error) => failure.abort(error));
  });
  parser.on('filesLimit', () => failure.abort(badPart(maxFiles, `is one of more than ${maxFiles}`)));
  parser.on('partsLimit', () => failure.abort(tooManyParts()));
  try {
    await Promise.race([pipeline(body.iterator({ destroyOnReturn: false }), parser, { signal: stop }), aborted(stop)]);
    await queue;
  } catch (cause) {
    if (stop.aborted) throw stop.reason;
    throw new CodeBoxError('invalid_request', 'The multipart body is broken.', {
      cause,
      errors: [{ pointer: '', detail: 'is not a whole multipart body' }],
    });
  }
  if (written === 0)
    throw new CodeBoxError('invalid_request', 'The multipart body has no file.', {
      errors: [{ pointer: '', detail: 'has no part with a filename' }],
    });
};

const aborted = async (signal: AbortSignal): Promise<never> => {
  if (!signal.aborted) await once(signal, 'abort');
  throw signal.reason;
};

const openParser = (contentType: string, fileField: string | undefined, fields: number) => {
  try {
    return new Busboy({
      headers: { 'content-type': contentType },
      preservePath: true,
      isPartAFile: (field, type, filename) =>
        type === 'application/octet-stream' || filename !== undefined || (field !== undefined && field === fileField),
      limits: { files: maxFiles, parts: maxParts, fields, fieldSize: maxFieldBytes },
    });
  } catch (cause) {
    throw new CodeBoxError('invalid_request', 'The multipart body has no boundary.', {
      cause,
      errors: [{ pointer: '/headers/Content-Type', detail: 'has no boundary' }],
    });
  }
};

const badPart = (index: number, detail: string) =>
  new CodeBoxError('invalid_request', `File ${index} ${detail}.`, {
    errors: [{ pointer: `/files/${index}/filename`, detail }],
  });

const tooManyParts = () =>
  new CodeBoxError('invalid_request', `The multipart body has more than ${maxParts} parts.`, {
    errors: [{ pointer: '', detail: `has more than ${maxParts} parts` }],
  });
