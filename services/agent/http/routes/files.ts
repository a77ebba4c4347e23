import { z } from 'zod';
import {
  attachmentSchema,
  boxPathSchema,
  CodeBoxError,
  chatFilesQuerySchema,
  chatFolderSchema,
  type Uploaded,
  uploadedSchema,
} from '#contract';
import { readMultipart } from '../../../http/multipart.ts';
import { openUpload } from '../../../http/uploads.ts';
import type { Files } from '../../chats/files.ts';
import { readRange, sendFile } from '../downloads.ts';
import type { Endpoints } from '../endpoints.ts';
import { chatParams } from './chats.ts';

const params = chatParams.extend({ path: boxPathSchema });
/** A token holds a path of up to 4,096 bytes, written as JSON, encrypted and as base64. */
const linkParams = z.object({ path: z.string().regex(/^[\w-]{1,14000}\/[^/]{0,1024}$/, 'is no link') });
const artifactSchema = z.strictObject({ path: boxPathSchema }).meta({ id: 'CreateArtifact' });
const uploadedListSchema = z.object({ items: z.array(uploadedSchema) }).meta({ id: 'UploadedList' });
const binary = z.string().meta({ format: 'binary' });
const bytes = { 'application/octet-stream': binary };
const tag = 'Files';

/** `/v1/chats/{chat}/files` and signed links: what is in the box of a chat, and what is kept of it. */
export const addFileRoutes = ({ add }: Endpoints, files: Files): void => {
  add(
    {
      method: 'get',
      path: '/v1/chats/{chat}/files',
      summary: 'The entries of a folder, with signed links',
      tag,
      params: chatParams,
      query: chatFilesQuerySchema,
      responses: { 200: { description: 'The first of them, by name.', schema: chatFolderSchema } },
    },
    async ({ c, owner, params, query }) =>
      c.json({ items: await files.list(owner, params.chat, query.path, query.limit), nextCursor: null }),
  );

  add(
    {
      method: 'post',
      path: '/v1/chats/{chat}/files',
      summary: 'Upload many files as multipart/form-data, their filenames being paths',
      tag,
      params: chatParams,
      rawBody: { 'multipart/form-data': z.object({ file: z.array(binary) }) },
      responses: { 200: { description: 'They are in the box, whole.', schema: uploadedListSchema } },
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
        params,
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
      summary: 'Upload a file: whole or not at all, parents are made; with `If-None-Match: *` only where there is none',
      tag,
      params,
      rawBody: bytes,
      responses: { 200: { description: 'It is in the box; of a table its columns are told.', schema: uploadedSchema } },
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
      summary: 'Remove a file, or a folder with all that is in it',
      tag,
      params,
      responses: { 204: { description: 'It is gone.' } },
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
      summary: 'Keep a copy of a file, whose link works when the box is gone',
      tag,
      params: chatParams,
      body: artifactSchema,
      responses: { 201: { description: 'It is kept until the chat is removed.', schema: attachmentSchema } },
    },
    async ({ c, owner, params, body }) => c.json(await files.keep(owner, params.chat, body.path), 201),
  );

  for (const method of ['get', 'head'] as const) {
    add(
      {
        method,
        path: '/v1/files/{path}',
        summary: 'What a signed link opens: its token, and the name to save it under',
        tag,
        isPublic: true,
        params: linkParams,
        responses: {
          200: { description: 'The bytes; pictures are shown, all else is saved.', types: bytes },
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
