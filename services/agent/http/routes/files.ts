import { z } from 'zod';
import {
  attachmentSchema,
  boxPathSchema,
  CodeBoxError,
  chatFilesQuerySchema,
  chatFolderSchema,
  type Uploaded,
  uploadedSchema,
  urlPathSchema,
} from '#contract';
import { readMultipart } from '../../../http/bodies/multipart.ts';
import { openUpload } from '../../../http/bodies/uploads.ts';
import type { Files } from '../../chats/files/files.ts';
import { readRange, sendFile } from '../downloads.ts';
import type { Endpoints } from '../endpoints.ts';
import { chatParams } from './chats.ts';

const params = chatParams.extend({ path: boxPathSchema });
/** What is in a box already may have any name. */
const foundParams = chatParams.extend({ path: urlPathSchema });
/** A token contains a path of up to 4,096 bytes as JSON, encrypted and in base64. */
const linkParams = z.object({ path: z.string().regex(/^[\w-]{1,14000}\/[^/]{0,1024}$/, 'is not a link') });
const artifactSchema = z.strictObject({ path: boxPathSchema }).meta({ id: 'CreateArtifact' });
const uploadedListSchema = z.object({ items: z.array(uploadedSchema) }).meta({ id: 'UploadedList' });
const binary = z.string().meta({ format: 'binary' });
const bytes = { 'application/octet-stream': binary };
const tag = 'Files';

/** `/v1/chats/{chat}/files` and signed links: the files of a chat's box, and kept copies of them. */
export const addFileRoutes = ({ add }: Endpoints, files: Files): void => {
  add(
    {
      method: 'get',
      path: '/v1/chats/{chat}/files',
      summary: 'List the entries of a folder, with signed links',
      tag,
      params: chatParams,
      query: chatFilesQuerySchema,
      responses: { 200: { description: 'The first entries, by name.', schema: chatFolderSchema } },
    },
    async ({ c, owner, params, query }) =>
      c.json({ items: await files.list(owner, params.chat, query.path, query.limit), nextCursor: null }),
  );

  add(
    {
      method: 'post',
      path: '/v1/chats/{chat}/files',
      summary: 'Upload several files as multipart/form-data, whose filenames are paths',
      tag,
      params: chatParams,
      rawBody: { 'multipart/form-data': z.object({ file: z.array(binary) }) },
      responses: { 200: { description: 'The files were uploaded.', schema: uploadedListSchema } },
    },
    async ({ c, owner, params }) => {
      const type = c.req.header('content-type') ?? '';
      if (!/^multipart\/form-data\b/i.test(type))
        throw new CodeBoxError('unsupported_media_type', 'Send multipart/form-data, or PUT one file.');
      using upload = openUpload(c);
      const items: Uploaded[] = [];
      const write = async (path: string, content: Parameters<Files['put']>[3]) => {
        items.push(await files.put(owner, params.chat, path, content, upload.signal));
      };
      await readMultipart(upload.body, type, write, upload.signal);
      return c.json({ items });
    },
  );

  for (const method of ['get', 'head'] as const) {
    add(
      {
        method,
        path: '/v1/chats/{chat}/files/{path}',
        summary: method === 'get' ? 'Download a file, or a range of it' : 'Size and ETag of a file',
        tag,
        params: foundParams,
        responses: {
          200: { description: 'The bytes.', types: bytes },
          206: { description: 'The range.', types: bytes },
        },
      },
      async ({ c, owner, params }) => {
        const file = await files.open(owner, params.chat, params.path, readRange(c));
        return sendFile(c, file, file.name);
      },
    );
  }

  add(
    {
      method: 'put',
      path: '/v1/chats/{chat}/files/{path}',
      summary:
        'Upload a file atomically, creating missing parents; with `If-None-Match: *` only if there is no such file',
      tag,
      params,
      rawBody: bytes,
      responses: {
        200: {
          description: 'The file was uploaded; for a table, the preview lists its columns.',
          schema: uploadedSchema,
        },
      },
    },
    async ({ c, owner, params }) => {
      using upload = openUpload(c);
      const create = c.req.header('if-none-match') === '*';
      return c.json(await files.put(owner, params.chat, params.path, upload.body, upload.signal, create));
    },
  );

  add(
    {
      method: 'delete',
      path: '/v1/chats/{chat}/files/{path}',
      summary: 'Delete a file, or a folder with its contents',
      tag,
      params: foundParams,
      responses: { 204: { description: 'It was deleted.' } },
    },
    async ({ c, owner, params }) => {
      await files.remove(owner, params.chat, params.path);
      return c.body(null, 204);
    },
  );

  add(
    {
      method: 'post',
      path: '/v1/chats/{chat}/artifacts',
      summary: 'Keep a copy of a file, whose link still works after the box has ended',
      tag,
      params: chatParams,
      body: artifactSchema,
      responses: { 201: { description: 'The copy is kept until the chat is deleted.', schema: attachmentSchema } },
    },
    async ({ c, owner, params, body }) => c.json(await files.keep(owner, params.chat, body.path), 201),
  );

  for (const method of ['get', 'head'] as const) {
    add(
      {
        method,
        path: '/v1/files/{path}',
        summary: 'Open a signed link: its token, and the name to save the file under',
        tag,
        isPublic: true,
        params: linkParams,
        responses: {
          200: { description: 'The bytes; pictures are shown inline, other files are downloaded.', types: bytes },
          206: { description: 'The range.', types: bytes },
        },
      },
      async ({ c, params }) => {
        const [token = '', name = ''] = params.path.split('/');
        const file = await files.openLink(token, readRange(c), c.req.raw.signal);
        return sendFile(c, file, name);
      },
    );
  }
};
