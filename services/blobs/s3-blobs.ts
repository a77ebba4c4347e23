import { addAbortSignal, Readable } from 'node:stream';
import { CodeBoxError } from '#contract';
import { orAborted } from '../waiting/or-aborted.ts';
import type { BlobStore } from './blob-store.ts';
import { translateFault } from './fault.ts';
import { compatible, uploadToS3 } from './s3-upload.ts';

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
    requestHandler: timeouts,
    ...compatible,
  });
  const at = (name: string) => ({ Bucket: bucket, Key: prefix + name });

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
          const object = { ...at(name), ContentType: 'application/octet-stream' };
          await uploadToS3(client, object, addAbortSignal(signal, content), { partBytes, signal });
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
