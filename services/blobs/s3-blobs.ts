import { addAbortSignal, Readable } from 'node:stream';
import type { ReadableStream } from 'node:stream/web';
import { S3mini, S3ServiceError } from 's3mini';
import { CodeBoxError } from '#contract';
import type { BlobStore } from './blob-store.ts';
import { translateFault } from './fault.ts';
import { inParts } from './parts.ts';

export interface S3Place {
  /** With the bucket as its path. */
  endpoint: string;
  /** Below which names begin; empty, or ending in `/`. */
  prefix: string;
  region: string;
  accessKeyId: string;
  secretAccessKey: string;
}

/** The least that S3 takes as a part; a whole blob may have 10,000. */
const partBytes = 16 * 1024 * 1024;
const abortMs = 10_000;
const pageSize = 1000;

/** Blobs in a bucket of S3, or of what speaks like it. A large one is sent in parts, one of which is in memory at a time. */
export const createS3Blobs = ({ prefix, ...place }: S3Place): BlobStore => {
  // A client per call, because its requests take a signal only by their `fetch`.
  const client = (signal: AbortSignal): S3mini =>
    new S3mini({ ...place, fetch: (input, init) => fetch(input, { ...init, signal }) });

  const putParts = async (key: string, first: Buffer, rest: AsyncIterable<Buffer>, signal: AbortSignal) => {
    const s3 = client(signal);
    const upload = await s3.getMultipartUploadId(key);
    try {
      const parts = [await s3.uploadPart(key, upload, first, 1)];
      for await (const part of rest) parts.push(await s3.uploadPart(key, upload, part, parts.length + 1));
      await s3.completeMultipartUpload(key, upload, parts);
    } catch (error) {
      // What is left of it costs money and is in no list.
      await client(AbortSignal.timeout(abortMs))
        .abortMultipartUpload(key, upload)
        .catch(() => {});
      throw error;
    }
  };

  const canRead = async (key: string, signal: AbortSignal): Promise<boolean> => {
    try {
      const answer = await client(signal).getObjectResponse(key);
      await answer?.body?.cancel();
      return answer !== null;
    } catch (error) {
      // Without the right to list, what is missing is denied; any other refusal is one of our keys.
      if (error instanceof S3ServiceError && error.serviceCode === 'AccessDenied') return false;
      throw error;
    }
  };

  return {
    kind: 's3',

    put: (name, content, signal) =>
      translateFault(async () => {
        try {
          const parts = inParts(addAbortSignal(signal, content), partBytes);
          const { value: first = Buffer.alloc(0) } = await parts.next();
          if (first.length === partBytes) await putParts(prefix + name, first, parts, signal);
          else await client(signal).putObject(prefix + name, first, 'application/octet-stream');
        } finally {
          content.destroy();
        }
      }),

    get: (name, signal) =>
      translateFault(async () => {
        const answer = await client(signal).getObjectResponse(prefix + name);
        if (!answer?.body) throw new CodeBoxError('not_found', 'There is no such blob.');
        return Readable.fromWeb(answer.body as ReadableStream);
      }),

    has: (name, signal) =>
      translateFault(async () => {
        try {
          return (await client(signal).objectExists(prefix + name)) === true;
        } catch (error) {
          // The answer to HEAD has no body, which would say why.
          if (error instanceof S3ServiceError && error.status === 403) return await canRead(prefix + name, signal);
          throw error;
        }
      }),

    delete: (name, signal) =>
      translateFault(async () => {
        await client(signal).deleteObject(prefix + name);
      }),

    list: (cursor, signal) =>
      translateFault(async () => {
        const page = await client(signal).listObjectsPaged('/', prefix, pageSize, cursor);
        const items = (page?.objects ?? []).map(({ Key, LastModified }) => ({
          name: Key.slice(prefix.length),
          changedAt: LastModified,
        }));
        const next = page?.nextContinuationToken;
        return { items, ...(next !== undefined && { next }) };
      }),
  };
};
