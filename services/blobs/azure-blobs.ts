import { addAbortSignal, Readable } from 'node:stream';
import { CodeBoxError } from '#contract';
import type { BlobStore } from './blob-store.ts';
import { translateFault } from './fault.ts';

export interface AzurePlace {
  /** A connection string, or only the origin of the account's blobs: credentials are then looked up. */
  account: { connectionString: string } | string;
  container: string;
  /** The prefix of all names; empty, or ending in `/`. */
  prefix: string;
}

const partBytes = 8 * 1024 * 1024;
const partsAtOnce = 2;
const pageSize = 1000;

/**
 * Blobs in a container of Azure Blob Storage. Its libraries are loaded only here. Without a connection string credentials are
 * looked up as by every client of Azure: secrets in the environment, the token of a service account (workload identity), the identity
 * of the machine or the app (managed identity).
 */
export const createAzureBlobs = async ({ account, container, prefix }: AzurePlace): Promise<BlobStore> => {
  const { ContainerClient, RestError } = await import('@azure/storage-blob');
  const client =
    typeof account === 'string'
      ? new ContainerClient(`${account}/${container}`, await findCredential())
      : new ContainerClient(account.connectionString, container);

  return {
    kind: 'azure',

    put: (name, content, signal) =>
      translateFault(async () => {
        try {
          const blob = client.getBlockBlobClient(prefix + name);
          // The library would keep waiting for content.
          addAbortSignal(signal, content);
          await blob.uploadStream(content, partBytes, partsAtOnce, { abortSignal: signal });
        } finally {
          content.destroy();
        }
      }),

    get: (name, signal) =>
      translateFault(async () => {
        try {
          const response = await client.getBlobClient(prefix + name).download(0, undefined, { abortSignal: signal });
          if (!(response.readableStreamBody instanceof Readable)) throw new Error('a blob without a body');
          return response.readableStreamBody;
        } catch (cause) {
          if (!(cause instanceof RestError) || cause.statusCode !== 404) throw cause;
          throw new CodeBoxError('not_found', 'There is no such blob.', { cause });
        }
      }),

    has: (name, signal) =>
      translateFault(async () => {
        try {
          await client.getBlobClient(prefix + name).getProperties({ abortSignal: signal });
          return true;
        } catch (error) {
          // A missing container is a different error.
          const isMissing =
            error instanceof RestError && error.response?.headers.get('x-ms-error-code') === 'BlobNotFound';
          if (isMissing) return false;
          throw error;
        }
      }),

    delete: (name, signal) =>
      translateFault(async () => {
        await client.getBlobClient(prefix + name).deleteIfExists({ abortSignal: signal });
      }),

    list: (cursor, signal) =>
      translateFault(async () => {
        const from = { maxPageSize: pageSize, ...(cursor !== undefined && { continuationToken: cursor }) };
        for await (const page of client.listBlobsFlat({ prefix, abortSignal: signal }).byPage(from)) {
          const items = page.segment.blobItems.map(({ name, properties }) => ({
            name: name.slice(prefix.length),
            changedAt: properties.lastModified,
          }));
          return { items, ...(page.continuationToken && { next: page.continuationToken }) };
        }
        return { items: [] };
      }),
  };
};

const findCredential = async () => {
  const { DefaultAzureCredential } = await import('@azure/identity');
  // The operator configures the authority, so it is not validated against the public cloud.
  return new DefaultAzureCredential({ disableInstanceDiscovery: true });
};
