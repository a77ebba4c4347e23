import { resolve } from 'node:path';
import type { BlobStore } from './blob-store.ts';
import { createFolderBlobs } from './folder-blobs.ts';

/**
 * The store that a place names: a folder, `s3+https://host/bucket/prefix` or `azure+https://account.host/container/prefix` (both
 * also with `http`). What belongs to a deployment is below a prefix of its own.
 */
export const openBlobs = async (place: string, deployment: string): Promise<BlobStore> => {
  return createFolderBlobs(resolve(place, deployment));
};
