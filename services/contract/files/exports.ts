import { z } from 'zod';
import { fetchUrlSchema } from '../values/fetch-url.ts';
import { pageSchema } from '../values/page.ts';
import { plainText } from '../values/text.ts';
import { boxPathSchema, encodedPathSchema } from './files.ts';
import { folderPathSchema, requestHeadersSchema } from './operations.ts';

const maxNamed = 100;
const bucketName = /^[A-Za-z0-9](?:[A-Za-z0-9._-]{0,220}[A-Za-z0-9])$/;
const visible = /^[\x21-\x7e]+$/;

const fileSchema = z.strictObject({
  path: boxPathSchema,
  url: fetchUrlSchema.meta({ description: 'Receives the file by one PUT, such as a presigned URL or a SAS URL.' }),
  headers: requestHeadersSchema.optional().meta({
    description: 'Sent with the file, such as `x-ms-blob-type: BlockBlob` for Azure, or those that were signed.',
  }),
});

/** The beginning of a key: names separated by `/`, of which none is empty, `.` or `..`; the last may be followed by `/`. */
const prefixSchema = plainText()
  .max(512)
  .refine(
    (prefix) =>
      prefix === '' ||
      prefix
        .replace(/\/$/, '')
        .split('/')
        .every((name) => name !== '' && name !== '.' && name !== '..'),
    'must be names separated by /, none of them empty, . or ..',
  );

const s3Schema = z.strictObject({
  bucket: z
    .string()
    .regex(bucketName, 'must be the name of a bucket')
    .refine((name) => !name.includes('..'), 'must be the name of a bucket'),
  prefix: prefixSchema.optional().meta({ description: 'The folder in the bucket. Default: none.' }),
  region: z
    .string()
    .regex(/^[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?$/, 'must be the name of a region')
    .optional()
    .meta({ description: 'Default `us-east-1`.' }),
  endpoint: fetchUrlSchema
    .refine((text) => {
      const url = new URL(text);
      return url.pathname === '/' && url.search === '' && url.hash === '';
    }, 'must be an origin, without a path')
    .optional()
    .meta({ description: 'The origin of another store with the API of S3. Default: that of AWS in the region.' }),
  accessKeyId: z.string().max(256).regex(visible, 'must be visible ASCII characters'),
  secretAccessKey: z.string().max(1024).regex(visible, 'must be visible ASCII characters'),
  sessionToken: z.string().max(8192).regex(visible, 'must be visible ASCII characters').optional(),
});

export type S3Target = z.infer<typeof s3Schema>;

/** A request to write files of a box to a store of the caller: each to a URL, or files and folders to a bucket. */
export const createExportSchema = z
  .strictObject({
    files: z
      .array(fileSchema)
      .min(1)
      .max(maxNamed)
      .optional()
      .meta({ description: 'Single files, with a URL for each.' }),
    paths: z.array(folderPathSchema).min(1).max(maxNamed).optional().meta({
      description:
        'Files and folders for `s3`; the empty path is the whole working folder. The key of a file is its path after the prefix.',
    }),
    s3: s3Schema.optional().meta({
      description: 'The bucket, and keys that may write to it. The keys are neither stored nor logged.',
    }),
    timeoutSeconds: z.int().min(1).max(3600).optional().meta({ description: 'For the whole export. Default 600.' }),
    detach: z.boolean().optional().meta({
      description: 'True to respond at once. Otherwise the response waits for the end, but no longer than 30 s.',
    }),
  })
  .superRefine(({ files, paths, s3 }, ctx) => {
    const fault = (path: string, message: string) =>
      ctx.addIssue({ code: 'custom', path: path ? [path] : [], message });
    if (files && paths) fault('paths', 'must not be given with files');
    if (files && s3) fault('s3', 'must not be given with files, which have URLs');
    if (!files && !paths) fault('', 'must have files with URLs, or paths and s3');
    if (!files && paths && !s3) fault('s3', 'is needed for paths');
  })
  .meta({ id: 'CreateExport' });

export type CreateExport = z.infer<typeof createExportSchema>;

/** Why an export failed. */
export const exportFailures = [
  'not_found',
  'too_large',
  'too_many_files',
  'refused',
  'unreachable',
  'box_unavailable',
  'timeout',
  'canceled',
  'interrupted',
  'internal',
] as const;

export type ExportFailureCode = (typeof exportFailures)[number];

const failureSchema = z
  .object({
    code: z.enum(exportFailures).meta({
      description:
        '`refused`: the store responded with an error; `unreachable`: it did not respond, or is at an address that may not be reached; ' +
        '`interrupted`: the gateway ended meanwhile.',
    }),
    detail: z.string(),
    path: z.string().nullable().meta({ description: 'The file or folder that failed, if it was one.' }),
  })
  .meta({ id: 'ExportFailure' });

export type ExportFailure = z.infer<typeof failureSchema>;

const exportedFileSchema = z
  .object({
    path: z.string(),
    encodedPath: encodedPathSchema.optional(),
    key: z.string().nullable().meta({ description: 'Its key in the bucket.' }),
    sizeBytes: z.int(),
    etag: z.string().nullable().meta({ description: 'The ETag that the store returned.' }),
  })
  .meta({ id: 'ExportedFile' });

export type ExportedFile = z.infer<typeof exportedFileSchema>;

export const exportSummarySchema = z
  .object({
    id: z.string(),
    box: z.string(),
    state: z.enum(['running', 'done', 'failed']),
    to: z
      .string()
      .nullable()
      .meta({ description: 'The URL of the bucket and its folder; null for an export to URLs.' }),
    fileCount: z.int().meta({ description: 'How many files have arrived, each as a whole.' }),
    sizeBytes: z.int().meta({ description: 'The size of these files.' }),
    skipped: z.int().meta({ description: 'Entries of folders that are no files, such as symbolic links.' }),
    failure: failureSchema.nullable(),
    createdAt: z.iso.datetime(),
    endedAt: z.iso.datetime().nullable(),
  })
  .meta({ id: 'ExportSummary' });

export type ExportSummary = z.infer<typeof exportSummarySchema>;

export const exportSchema = exportSummarySchema
  .extend({
    files: z.array(exportedFileSchema).meta({
      description:
        'The files that have arrived, once the export has ended. They are fewer than `fileCount` if their list would have more than 1 MiB, ' +
        'or if the gateway that exported them ended.',
    }),
  })
  .meta({ id: 'Export' });

export type Export = z.infer<typeof exportSchema>;

export const exportPageSchema = pageSchema('ExportPage', exportSummarySchema);
