import { z } from 'zod';
import type { S3Credentials } from './s3-blobs.ts';

/** Where blobs are kept, and with what right. */
export interface BlobsConfig {
  /** A folder, `s3+https://host/bucket/prefix` (or `s3+http`), `azure:container/prefix` or `azure+https://host/container/prefix`. */
  place: string;
  /** Without credentials they are looked for wherever the clients of AWS look. */
  s3: { credentials: S3Credentials | undefined; region: string };
  /** For `azure:`; the right to use `azure+https:` is looked for wherever the clients of Azure look. */
  azureConnectionString: string | undefined;
}

/** The environment variables of the blob store. */
export const blobsVariables = {
  CODEBOX_BLOBS: z.string().min(1).optional(),
  AWS_ACCESS_KEY_ID: z.string().min(1).optional(),
  AWS_SECRET_ACCESS_KEY: z.string().min(1).optional(),
  AWS_SESSION_TOKEN: z.string().min(1).optional(),
  AWS_REGION: z.string().min(1).default('us-east-1'),
  AZURE_STORAGE_CONNECTION_STRING: z.string().min(1).optional(),
};

type BlobsVariables = z.output<z.ZodObject<typeof blobsVariables>>;

/** Returns the configured blob store, by default `folder`. */
export const toBlobsConfig = (values: BlobsVariables, folder: string): BlobsConfig => ({
  place: values.CODEBOX_BLOBS ?? folder,
  s3: { credentials: toCredentials(values), region: values.AWS_REGION },
  azureConnectionString: values.AZURE_STORAGE_CONNECTION_STRING,
});

const toCredentials = (values: BlobsVariables): S3Credentials | undefined => {
  const { AWS_ACCESS_KEY_ID: accessKeyId, AWS_SECRET_ACCESS_KEY: secretAccessKey, AWS_SESSION_TOKEN } = values;
  if (accessKeyId === undefined || secretAccessKey === undefined) return undefined;
  return { accessKeyId, secretAccessKey, ...(AWS_SESSION_TOKEN !== undefined && { sessionToken: AWS_SESSION_TOKEN }) };
};
