import type { Context } from 'hono';
import { z } from 'zod';
import {
  fileEntrySchema,
  folderQuerySchema,
  folderSchema,
  maxFolderDepth,
  newUrlPathSchema,
  urlPathSchema,
} from '#contract';
import { downloadHeaders } from '../../../../http/bodies/downloads.ts';
import { openUpload } from '../../../../http/bodies/uploads.ts';
import type { BoxRef } from '../../../boxes/box-ref.ts';
import { type FileHead, type Files, NoSuchRange, type Opened, type ReadOptions } from '../../../boxes/reach/files.ts';
import { sendFile, setFileSize } from '../../downloads.ts';
import type { Endpoints, Input } from '../../endpoint.ts';
import type { Env } from '../../env.ts';
import { boxParams } from '../boxes/boxes.ts';
import { conditionsOf } from './conditions.ts';

const params = boxParams.extend({ path: urlPathSchema });
const folderParams = boxParams.extend({ path: z.union([z.literal(''), urlPathSchema]) });
/** The query of a read: that of a folder page, plus archive and download options. */
const readQuery = folderQuerySchema.extend({
  as: z.enum(['tar', 'zip']).optional().meta({ description: 'Returns a folder as one archive with everything in it.' }),
  download: z
    .string()
    .min(1)
    .max(255)
    .refine((name) => !/[/\p{Cc}\p{Cs}]/u.test(name), 'must not contain / or control characters')
    .optional()
    .meta({ description: 'The file name for the download.' }),
});
const tag = 'Files';
const binary = z.string().meta({ format: 'binary' });
const archiveTypes = { tar: 'application/x-tar', zip: 'application/zip' };

type ReadInput = Input<z.output<typeof folderParams>, z.output<typeof readQuery>, unknown>;

/** The result of a read; that of HEAD has no body. */
type Found = Opened | (FileHead & { body?: undefined });

/** `/v1/boxes/{box}/files/{path}`: bytes up and down, folders, removal. */
export const addFileRoutes = ({ add }: Endpoints, files: Files): void => {
  const look = async (c: Context<Env>, ref: BoxRef, path: string, options: ReadOptions): Promise<Found> => {
    if (c.req.method === 'HEAD') return await files.stat(ref, path, options);
    return await files.open(ref, path, { ...options, range: c.req.header('range') }).catch((error: unknown) => {
      if (error instanceof NoSuchRange) setFileSize(c, error);
      throw error;
    });
  };

  const read = async ({ c, tenant, params, query }: ReadInput) => {
    const { download, recursive, as: archive, ...page } = query;
    if (recursive === 'true') page.depth ??= maxFolderDepth;
    const conditions = { ...conditionsOf(c), ifRange: c.req.header('if-range') };
    const found = await look(c, { tenant, box: params.box }, params.path, { archive, page, conditions });
    if ('page' in found) return c.json(found.page);
    const name = params.path.split('/').at(-1)?.toWellFormed() || 'data';
    const headers = archive
      ? downloadHeaders(download ?? `${name}.${archive}`, archiveTypes[archive])
      : downloadHeaders(download ?? name, found.kind === 'folder' ? 'application/json' : undefined);
    return sendFile(c, found, headers, found.body);
  };

  // The router sends HEAD to the route of GET, so both share a handler that checks the method of the request.
  for (const method of ['get', 'head'] as const) {
    add(
      {
        method,
        path: '/v1/boxes/{box}/files/{path}',
        scope: 'files',
        summary:
          method === 'get'
            ? 'Download a file (ranges, ETag), list a folder, or download it as an archive'
            : 'Read the size and the ETag of a file',
        tag,
        params: folderParams,
        query: readQuery,
        responses: {
          200: {
            description: 'The content of a file, the entries of a folder, or an archive with `as`.',
            types: {
              'application/octet-stream': binary,
              'application/json': folderSchema,
              ...Object.fromEntries(Object.values(archiveTypes).map((type) => [type, binary])),
            },
          },
          206: { description: 'The requested range.', types: { 'application/octet-stream': binary } },
          304: { description: 'The file has not changed.' },
        },
      },
      read,
    );
  }

  add(
    {
      method: 'put',
      path: '/v1/boxes/{box}/files/{path}',
      scope: 'files',
      summary: 'Upload a file, as a whole or not at all; parent folders are created',
      tag,
      params: boxParams.extend({ path: newUrlPathSchema }),
      rawBody: { 'application/octet-stream': binary },
      responses: {
        201: { description: 'The file was created.', schema: fileEntrySchema },
        200: { description: 'The file was replaced.', schema: fileEntrySchema },
      },
    },
    async ({ c, tenant, params }) => {
      using upload = openUpload(c);
      const length = c.req.header('content-length');
      const { entry, isNew } = await files.put({ tenant, box: params.box }, params.path, upload.body, {
        conditions: conditionsOf(c),
        sizeBytes: length === undefined ? undefined : Number(length),
        signal: upload.signal,
      });
      if (entry.etag) c.header('ETag', entry.etag);
      return c.json(entry, isNew ? 201 : 200);
    },
  );

  add(
    {
      method: 'delete',
      path: '/v1/boxes/{box}/files/{path}',
      scope: 'files',
      summary: 'Remove a file, or a folder with everything in it',
      tag,
      params,
      responses: { 204: { description: 'The file or folder was removed.' } },
    },
    async ({ c, tenant, params }) => {
      await files.remove({ tenant, box: params.box }, params.path, conditionsOf(c));
      return c.body(null, 204);
    },
  );
};
