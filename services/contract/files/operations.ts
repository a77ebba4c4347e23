import { z } from 'zod';
import { fetchUrlSchema } from '../values/fetch-url.ts';
import { boxPathSchema } from './files.ts';

const overwrite = z
  .boolean()
  .optional()
  .meta({ description: 'Replace an existing entry; without it an existing entry is a 409.' });

/** Headers that belong to the connection and are not the caller's to set. */
const ownHeaders = new Set([
  ...['accept-encoding', 'connection', 'content-length', 'expect', 'host', 'keep-alive', 'proxy-connection'],
  ...['range', 'te', 'trailer', 'transfer-encoding', 'upgrade'],
]);
const headerName = z
  .string()
  .regex(/^[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}$/, 'must be the name of a header')
  .refine((name) => !ownHeaders.has(name.toLowerCase()), 'must not be a header of the connection');
const headerValue = z.string().regex(/^[\t\x20-\x7e\x80-\xff]{0,8192}$/, 'must be one line of Latin-1');

/** Headers of a request to a URL that the caller gives. */
export const requestHeadersSchema = z
  .record(headerName, headerValue)
  .refine((headers) => Object.keys(headers).length <= 64, 'must have at most 64 entries');

const fetchFields = {
  headers: requestHeadersSchema
    .optional()
    .meta({ description: 'Sent to the host of the URL, but not to other hosts that it redirects to.' }),
  timeoutSeconds: z.int().min(1).max(3600).optional().meta({ description: 'For the whole download. Default 60.' }),
  maxBytes: z.int().min(1).max(1_125_899_906_842_624).optional(),
};

/** The path of a file or folder; the empty one is that of the working folder. */
export const folderPathSchema = z.union([z.literal(''), boxPathSchema]);

/** JSON body of `POST …/files`. Each operation returns the entry that it created. */
export const fileOperationSchema = z
  .discriminatedUnion('op', [
    z
      .strictObject({ op: z.literal('mkdir'), path: boxPathSchema })
      .meta({ description: 'Missing parents are created too.' }),
    z
      .strictObject({ op: z.literal('move'), from: boxPathSchema, to: boxPathSchema, overwrite })
      .meta({ description: 'Renames; parents are made.' }),
    z
      .strictObject({ op: z.literal('copy'), from: boxPathSchema, to: boxPathSchema, overwrite })
      .meta({ description: 'Copies a folder with its contents, modes and times; links stay links.' }),
    z
      .strictObject({
        op: z.literal('extract'),
        path: boxPathSchema.meta({ description: 'The archive.' }),
        to: folderPathSchema.optional().meta({ description: 'The target folder. Default: the working folder.' }),
        format: z.enum(['zip', 'tar', 'tar.gz', 'tar.bz2', 'tar.xz']).optional(),
        overwrite,
      })
      .meta({
        description: 'All or nothing. An entry that leads out of the folder is refused, and the error names it.',
      }),
    z.strictObject({ op: z.literal('fetch'), url: fetchUrlSchema, path: boxPathSchema, ...fetchFields }).meta({
      description: 'Downloads a URL from inside the box, under its network policy; replaces an existing file.',
    }),
  ])
  .meta({ id: 'FileOperation' });

export type FileOperation = z.infer<typeof fileOperationSchema>;
