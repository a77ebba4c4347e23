import { z } from 'zod';
import type { S3Credentials } from './s3-blobs.ts';

/** The place where blobs are stored, and the credentials for it. */
export interface BlobsConfig {
  /** A folder, `s3+https://host/bucket/prefix` (or `s3+http`), `azure:container/prefix` or `azure+https://host/container/prefix`. */
  place: string;
  /** When missing, credentials are looked up in all places that the clients of AWS use. */
  s3: { credentials: S3Credentials | undefined; region: string };
  /** For `azure:`; credentials for `azure+https:` are looked up in all places that the clients of Azure use. */
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
