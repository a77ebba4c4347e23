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
  AWS_REGION: z.string().min(1).optional(),
  AZURE_STORAGE_CONNECTION_STRING: z.string().min(1).optional(),
};

type BlobsVariables = z.output<z.ZodObject<typeof blobsVariables>>;

/** Returns the configured blob store, by default `folder`. */
export const toBlobsConfig = (values: BlobsVariables, folder: string): BlobsConfig => {
  const place = values.CODEBOX_BLOBS ?? folder;
  return {
    place,
    s3: { credentials: toCredentials(values), region: values.AWS_REGION ?? regionOf(place) ?? 'us-east-1' },
    azureConnectionString: values.AZURE_STORAGE_CONNECTION_STRING,
  };
};

/** The region in the host name of S3, which refuses signatures for another one. */
const regionOf = (place: string): string | undefined =>
  /^s3\+https?:\/\/s3[.-](?:dualstack\.)?([a-z]+(?:-[a-z]+)+-\d+)\.amazonaws\.com/.exec(place)?.[1];

const toCredentials = (values: BlobsVariables): S3Credentials | undefined => {
  const { AWS_ACCESS_KEY_ID: accessKeyId, AWS_SECRET_ACCESS_KEY: secretAccessKey, AWS_SESSION_TOKEN } = values;
  if (accessKeyId === undefined || secretAccessKey === undefined) return undefined;
  return { accessKeyId, secretAccessKey, ...(AWS_SESSION_TOKEN !== undefined && { sessionToken: AWS_SESSION_TOKEN }) };
};
