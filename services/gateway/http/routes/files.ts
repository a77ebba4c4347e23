import { z } from 'zod';
import {
  fileEntrySchema,
  folderQuerySchema,
  folderSchema,
  maxFolderDepth,
  newUrlPathSchema,
  urlPathSchema,
} from '#contract';
import { downloadHeaders } from '../../../http/downloads.ts';
import { openUpload } from '../../../http/uploads.ts';
import { readAnswer } from '../../box-server/answer.ts';
import type { Files } from '../../boxes/reach/files.ts';
import { pick, refuseRange, sendRaw } from '../downloads.ts';
import type { Endpoints, Input } from '../endpoint.ts';
import { boxParams } from './boxes.ts';

const params = boxParams.extend({ path: urlPathSchema });
const folderParams = boxParams.extend({ path: z.union([z.literal(''), urlPathSchema]) });
/** What a reader asks for beside a plain file or one page of a folder. */
const readQuery = folderQuerySchema.extend({
  as: z.enum(['tar', 'zip']).optional().meta({ description: 'A folder as one archive of all that is in it.' }),
  download: z
    .string()
    .min(1)
    .max(255)
    .refine((name) => !/[/\p{Cc}\p{Cs}]/u.test(name), 'must not contain / or control characters')
    .optional()
    .meta({ description: 'The name to save it under.' }),
});
const tag = 'Files';
const binary = z.string().meta({ format: 'binary' });
const archiveTypes = { tar: 'application/x-tar', zip: 'application/zip' };

const unchanged = ['if-match', 'if-unmodified-since'];
const passedOn = [...unchanged, 'range', 'if-none-match', 'if-range', 'if-modified-since'];

type ReadInput = Input<z.output<typeof folderParams>, z.output<typeof readQuery>, unknown>;

/** `/v1/boxes/{box}/files/{path}`: bytes up and down, folders, removal. */
export const addFileRoutes = ({ add }: Endpoints, files: Files): void => {
  const read = async ({ c, tenant, params, query }: ReadInput) => {
    const { download, recursive, ...asked } = query;
    const method = c.req.method === 'HEAD' ? 'HEAD' : 'GET';
    const search = new URLSearchParams();
    for (const [name, value] of Object.entries(asked)) search.set(name, String(value));
    if (recursive === 'true' && asked.depth === undefined) search.set('depth', String(maxFolderDepth));
    const suffix = search.size > 0 ? `?${search}` : '';
    const answer = await files.read(tenant, params.box, method, params.path, suffix, pick(c, passedOn));
    if (answer.status === 416) return refuseRange(c, answer);
    const isListing = answer.headers['x-codebox-type'] === 'directory';
    if (isListing && method === 'GET') return c.json(await readAnswer(folderSchema, answer.body));
    const name = params.path.split('/').at(-1)?.toWellFormed() || 'data';
    const headers = asked.as
      ? downloadHeaders(download ?? `${name}.${asked.as}`, archiveTypes[asked.as])
      : downloadHeaders(download ?? name, isListing ? 'application/json' : undefined);
    return sendRaw(c, answer, headers, method === 'HEAD' || answer.status === 304);
  };

  // The router gives HEAD to the route of GET, so the handler is one and looks at the request's method.
  for (const method of ['get', 'head'] as const) {
    add(
      {
        method,
        path: '/v1/boxes/{box}/files/{path}',
        scope: 'files',
        summary:
          method === 'get'
            ? 'Download a file (ranges, ETag), list a folder, or download it as an archive'
            : 'Size and ETag of a file',
        tag,
        params: folderParams,
        query: readQuery,
        responses: {
          200: {
            description: 'The bytes; a folder answers its entries, or an archive with `as`.',
            types: {
              'application/octet-stream': binary,
              'application/json': folderSchema,
              ...Object.fromEntries(Object.values(archiveTypes).map((type) => [type, binary])),
            },
          },
          206: { description: 'The range.', types: { 'application/octet-stream': binary } },
          304: { description: 'Not changed.' },
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
      summary: 'Upload a file: whole or not at all, parents are made',
      tag,
      params: boxParams.extend({ path: newUrlPathSchema }),
      rawBody: { 'application/octet-stream': binary },
      responses: {
        201: { description: 'It is new.', schema: fileEntrySchema },
        200: { description: 'It was replaced.', schema: fileEntrySchema },
      },
    },
    async ({ c, tenant, params }) => {
      using upload = openUpload(c);
      const headers = pick(c, ['content-length', 'if-none-match', ...unchanged]);
      const answer = await files.write(tenant, params.box, params.path, upload.body, headers, upload.signal);
      const entry = await readAnswer(fileEntrySchema, answer.body);
      if (entry.etag) c.header('ETag', entry.etag);
      return c.json(entry, answer.status === 201 ? 201 : 200);
    },
  );

  add(
    {
      method: 'delete',
      path: '/v1/boxes/{box}/files/{path}',
      scope: 'files',
      summary: 'Remove a file, or a folder with all that is in it',
      tag,
      params,
      responses: { 204: { description: 'It is gone.' } },
    },
    async ({ c, tenant, params }) => {
      await files.remove(tenant, params.box, params.path, pick(c, ['if-none-match', ...unchanged]));
      return c.body(null, 204);
    },
  );
};
