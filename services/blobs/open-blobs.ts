import { resolve } from 'node:path';
import { ConfigurationError } from '../configuration-error.ts';
import { createAzureBlobs } from './azure-blobs.ts';
import type { BlobStore } from './blob-store.ts';
import { createFolderBlobs } from './folder-blobs.ts';
import { createS3Blobs } from './s3-blobs.ts';

/** Where blobs are kept, and with what right. */
export interface BlobsConfig {
  /** A folder, `s3+https://host/bucket/prefix` (or `s3+http`), or `azure:container/prefix`. */
  place: string;
  s3: { accessKeyId: string | undefined; secretAccessKey: string | undefined; region: string };
  azureConnectionString: string | undefined;
}

/** The store that is configured; what belongs to a deployment is below a prefix of its own. Throws an Error for a bad place. */
export const openBlobs = async (
  { place, s3, azureConnectionString }: BlobsConfig,
  deployment: string,
): Promise<BlobStore> => {
  const prefixOf = (names: string[]) => [...names, deployment, ''].join('/');

  if (/^s3\+https?:/.test(place)) {
    const url = new URL(place.slice('s3+'.length));
    const [bucket, ...names] = segments(url.pathname);
    const { accessKeyId, secretAccessKey, region } = s3;
    if (!bucket) throw new ConfigurationError(`CODEBOX_BLOBS names no bucket: ${place}`);
    if (!accessKeyId || !secretAccessKey)
      throw new ConfigurationError('CODEBOX_BLOBS needs AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY.');
    return createS3Blobs({
      endpoint: `${url.origin}/${bucket}`,
      prefix: prefixOf(names),
      region,
      accessKeyId,
      secretAccessKey,
    });
  }

  if (place.startsWith('azure:')) {
    const [container, ...names] = segments(place.slice('azure:'.length));
    if (!container) throw new ConfigurationError(`CODEBOX_BLOBS names no container: ${place}`);
    if (!azureConnectionString) throw new ConfigurationError('CODEBOX_BLOBS needs AZURE_STORAGE_CONNECTION_STRING.');
    return await createAzureBlobs({ connectionString: azureConnectionString, container, prefix: prefixOf(names) });
  }

  return createFolderBlobs(resolve(place, deployment));
};

const segments = (path: string): string[] => path.split('/').filter((segment) => segment !== '');
