import { resolve } from 'node:path';
import { ConfigurationError } from '../configuration-error.ts';
import { createAzureBlobs } from './azure-blobs.ts';
import type { BlobStore } from './blob-store.ts';
import { createFolderBlobs } from './folder-blobs.ts';
import { createS3Blobs } from './s3-blobs.ts';
import type { BlobsConfig } from './settings.ts';

/** Opens the configured store; names have the prefix of the deployment. Throws an Error for an invalid place. */
export const openBlobs = async (
  { place, s3, azureConnectionString }: BlobsConfig,
  deployment: string,
): Promise<BlobStore> => {
  const prefixOf = (names: string[]) => [...names, deployment, ''].join('/');

  if (/^s3\+https?:/.test(place)) {
    const url = new URL(place.slice('s3+'.length));
    const [bucket, ...names] = segments(url.pathname);
    if (!bucket) throw new ConfigurationError(`CODEBOX_BLOBS names no bucket: ${place}`);
    return await createS3Blobs({ ...s3, endpoint: url.origin, bucket, prefix: prefixOf(names) });
  }

  if (/^azure\+https?:/.test(place)) {
    const url = new URL(place.slice('azure+'.length));
    const [container, ...names] = segments(url.pathname);
    if (!container) throw new ConfigurationError(`CODEBOX_BLOBS names no container: ${place}`);
    // A token could be intercepted on its way.
    if (url.protocol !== 'https:')
      throw new ConfigurationError(`CODEBOX_BLOBS has to begin with azure+https: ${place}`);
    return await createAzureBlobs({ account: url.origin, container, prefix: prefixOf(names) });
  }

  if (place.startsWith('azure:')) {
    const [container, ...names] = segments(place.slice('azure:'.length));
    if (!container) throw new ConfigurationError(`CODEBOX_BLOBS names no container: ${place}`);
    if (!azureConnectionString)
      throw new ConfigurationError(
        'CODEBOX_BLOBS needs AZURE_STORAGE_CONNECTION_STRING, or the address of the account as in azure+https://name.blob.core.windows.net/container.',
      );
    return await createAzureBlobs({
      account: { connectionString: azureConnectionString },
      container,
      prefix: prefixOf(names),
    });
  }

  return createFolderBlobs(resolve(place, deployment));
};

const segments = (path: string): string[] => path.split('/').filter((segment) => segment !== '');
