import type { Readable } from 'node:stream';
import type { S3Client } from '@aws-sdk/client-s3';
import { orAborted } from '../waiting/or-aborted.ts';
import { inParts } from './parts.ts';

export interface S3Object {
  Bucket: string;
  Key: string;
  ContentType: string;
}

export interface S3UploadOptions {
  /** One part of this size is in memory at a time. A larger object has several; S3 takes up to 10,000, of at least 5 MiB. */
  partBytes: number;
  signal: AbortSignal;
}

/** How long the id of an upload is waited for after its caller has left. */
const lastMs = 5000;
const abortMs = 10_000;

/** What compatible stores need: many support neither checksums after a body nor 100 Continue, nor buckets as host names. */
export const compatible = {
  forcePathStyle: true,
  requestChecksumCalculation: 'WHEN_REQUIRED',
  responseChecksumValidation: 'WHEN_REQUIRED',
  expectContinueHeader: false,
} as const;

/** Writes an object whole or not at all, in memory that does not grow with it. Resolves with its ETag. */
export const uploadToS3 = async (
  client: S3Client,
  object: S3Object,
  content: Readable,
  { partBytes, signal }: S3UploadOptions,
): Promise<string | undefined> => {
  const s3 = await import('@aws-sdk/client-s3');
  const { ContentType, ...at } = object;

  const putParts = async (first: Buffer, rest: AsyncIterable<Buffer>): Promise<string | undefined> => {
    const begin = new s3.CreateMultipartUploadCommand(object);
    // An upload whose id does not arrive cannot be removed.
    const late = later(signal, lastMs);
    const { UploadId } = await orAborted(client.send(begin, { abortSignal: late }), late);
    if (!UploadId) throw new Error('an upload without an id');
    const upload = { ...at, UploadId };
    try {
      signal.throwIfAborted();
      const Parts: { ETag: string | undefined; PartNumber: number }[] = [];
      const putPart = async (Body: Buffer) => {
        const PartNumber = Parts.length + 1;
        const part = new s3.UploadPartCommand({ ...upload, Body, PartNumber });
        const { ETag } = await client.send(part, { abortSignal: signal });
        Parts.push({ ETag, PartNumber });
      };
      await putPart(first);
      for await (const part of rest) await putPart(part);
      const whole = new s3.CompleteMultipartUploadCommand({ ...upload, MultipartUpload: { Parts } });
      return (await client.send(whole, { abortSignal: signal })).ETag;
    } catch (error) {
      // An unfinished upload costs money and appears in no list.
      await client
        .send(new s3.AbortMultipartUploadCommand(upload), { abortSignal: AbortSignal.timeout(abortMs) })
        .catch(() => {});
      throw error;
    }
  };

  const parts = inParts(content, partBytes);
  const { value: first = Buffer.alloc(0) } = await parts.next();
  if (first.length === partBytes) return await putParts(first, parts);
  const whole = new s3.PutObjectCommand({ ...object, Body: first });
  // The library looks for credentials without a signal.
  return (await orAborted(client.send(whole, { abortSignal: signal }), signal)).ETag;
};

/** Fires some time after another signal, with its reason. */
const later = (signal: AbortSignal, ms: number): AbortSignal => {
  const controller = new AbortController();
  const begin = () => setTimeout(() => controller.abort(signal.reason), ms).unref();
  if (signal.aborted) begin();
  else signal.addEventListener('abort', begin, { once: true });
  return controller.signal;
};
