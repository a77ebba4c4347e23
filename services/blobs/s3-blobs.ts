import { addAbortSignal, Readable } from 'node:stream';
import { CodeBoxError } from '#contract';
import { orAborted } from '../waiting/or-aborted.ts';
import type { BlobStore } from './blob-store.ts';
import { translateFault } from './fault.ts';
import { inParts } from './parts.ts';

export interface S3Credentials {
  accessKeyId: string;
  secretAccessKey: string;
  sessionToken?: string;
}

export interface S3Place {
  /** The origin, without the bucket. */
  endpoint: string;
  bucket: string;
  /** The prefix of all names; empty, or ending in `/`. */
  prefix: string;
  region: string;
  /**
   * Without them, credentials are found as by every AWS client: environment, shared files, the token of a service
   * account (IRSA), the agent of the container (EKS Pod Identity, ECS), the metadata of the machine. They are renewed
   * before they expire.
   */
  credentials: S3Credentials | undefined;
}

/** One part is in memory at a time; a blob in S3 may have 10,000. */
const partBytes = 16 * 1024 * 1024;
const abortMs = 10_000;
const pageSize = 1000;
/** Deadline of requests without a caller's signal: those for credentials. */
const timeouts = { connectionTimeout: 5000, socketTimeout: 60_000 };

/** Blobs in a bucket of S3 or a compatible store. Its library is loaded only here. */
export const createS3Blobs = async ({ endpoint, bucket, prefix, region, credentials }: S3Place): Promise<BlobStore> => {
  const s3 = await import('@aws-sdk/client-s3');
  const client = new s3.S3Client({
    endpoint,
    region,
    ...(credentials && { credentials }),
    forcePathStyle: true,
    requestHandler: timeouts,
    // Compatible stores often support neither checksums after a body nor 100 Continue.
    requestChecksumCalculation: 'WHEN_REQUIRED',
    responseChecksumValidation: 'WHEN_REQUIRED',
    expectContinueHeader: false,
  });
  const at = (name: string) => ({ Bucket: bucket, Key: prefix + name });

  const putParts = async (name: string, first: Buffer, rest: AsyncIterable<Buffer>, signal: AbortSignal) => {
    const begin = new s3.CreateMultipartUploadCommand(at(name));
    const { UploadId } = await orAborted(client.send(begin, { abortSignal: signal }), signal);
    const upload = { ...at(name), UploadId };
    try {
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
      await client.send(whole, { abortSignal: signal });
    } catch (error) {
      // An unfinished upload costs money and appears in no list.
      await client
        .send(new s3.AbortMultipartUploadCommand(upload), { abortSignal: AbortSignal.timeout(abortMs) })
        .catch(() => {});
      throw error;
    }
  };

  const open = async (name: string, signal: AbortSignal): Promise<Readable> => {
    const { Body } = await client.send(new s3.GetObjectCommand(at(name)), { abortSignal: signal });
    if (!(Body instanceof Readable)) throw new Error('a blob without a body');
    return addAbortSignal(signal, Body);
  };

  const canRead = async (name: string, signal: AbortSignal): Promise<boolean> => {
    try {
      (await open(name, signal)).destroy();
      return true;
    } catch (error) {
      // Without the right to list, a missing blob is denied; any other refusal concerns our keys.
      if (error instanceof s3.S3ServiceException && error.name === 'AccessDenied') return false;
      throw error;
    }
  };

  /** The library looks for credentials without a signal. */
  const call = <T>(signal: AbortSignal, work: () => Promise<T>) => translateFault(() => orAborted(work(), signal));

  return {
    kind: 's3',

    put: (name, content, signal) =>
      translateFault(async () => {
        try {
          const parts = inParts(addAbortSignal(signal, content), partBytes);
          const { value: first = Buffer.alloc(0) } = await parts.next();
          if (first.length === partBytes) return await putParts(name, first, parts, signal);
          const whole = new s3.PutObjectCommand({ ...at(name), Body: first, ContentType: 'application/octet-stream' });
          await orAborted(client.send(whole, { abortSignal: signal }), signal);
        } finally {
          content.destroy();
        }
      }),

    get: (name, signal) =>
      call(signal, async () => {
        try {
          return await open(name, signal);
        } catch (cause) {
          if (!(cause instanceof s3.NoSuchKey)) throw cause;
          throw new CodeBoxError('not_found', 'There is no such blob.', { cause });
        }
      }),

    has: (name, signal) =>
      call(signal, async () => {
        try {
          await client.send(new s3.HeadObjectCommand(at(name)), { abortSignal: signal });
          return true;
        } catch (error) {
          if (error instanceof s3.NotFound) return false;
          // The response to HEAD has no body that would explain the refusal.
          const isDenied = error instanceof s3.S3ServiceException && error.$metadata.httpStatusCode === 403;
          if (isDenied) return await canRead(name, signal);
          throw error;
        }
      }),

    delete: (name, signal) =>
      call(signal, async () => {
        await client.send(new s3.DeleteObjectCommand(at(name)), { abortSignal: signal });
      }),

    list: (cursor, signal) =>
      call(signal, async () => {
        const from = { Bucket: bucket, Prefix: prefix, MaxKeys: pageSize, ContinuationToken: cursor };
        const page = await client.send(new s3.ListObjectsV2Command(from), { abortSignal: signal });
        const items = (page.Contents ?? []).map(({ Key = '', LastModified }) => ({
          name: Key.slice(prefix.length),
          changedAt: LastModified ?? new Date(),
        }));
        const next = page.NextContinuationToken;
        return { items, ...(next !== undefined && { next }) };
      }),
  };
};
