import { z } from 'zod';
import { CodeBoxError, plainText, queryInteger } from '#contract';
import { readMultipart } from '../../../http/bodies/multipart.ts';
import { openUpload } from '../../../http/bodies/uploads.ts';
import { checkInput } from '../../../http/endpoints/endpoint.ts';
import { openAiPage, openAiPageSchema } from '../../../openai/page.ts';
import { mimeOf } from '../../chats/files/mime.ts';
import type { Uploads } from '../../chats/files/uploads.ts';
import { sendFile } from '../../http/downloads.ts';
import type { Endpoints } from '../../http/endpoints.ts';
import type { UploadRow } from '../../store/uploads.ts';

const tag = 'OpenAI';
const day = 86_400;
const params = z.object({ file: z.string().max(70) });
const purposes = ['assistants', 'batch', 'fine-tune', 'vision', 'user_data', 'evals'] as const;
const binary = z.string().meta({ format: 'binary' });

/** The fields of the form besides the file itself. */
const fieldsSchema = z.object({
  purpose: z.enum(purposes),
  expires_after: z
    .object({
      anchor: z.literal('created_at'),
      seconds: z.coerce
        .number()
        .int()
        .min(3600)
        .max(30 * day),
    })
    .default({ anchor: 'created_at', seconds: 30 * day }),
});

const fileSchema = z
  .object({
    id: z.string(),
    object: z.literal('file'),
    bytes: z.int(),
    created_at: z.int(),
    expires_at: z.int(),
    filename: z.string(),
    purpose: z.string(),
    status: z.literal('processed'),
  })
  .meta({ id: 'StoredFile', description: 'A file outside containers. It is deleted when it expires.' });

const listSchema = openAiPageSchema('StoredFileList', fileSchema);

const deletedSchema = z
  .object({ id: z.string(), object: z.literal('file'), deleted: z.literal(true) })
  .meta({ id: 'DeletedStoredFile' });

const listQuery = z.object({
  limit: queryInteger().min(1).max(10_000).default(1000),
  order: z.enum(['asc', 'desc']).default('desc'),
  after: plainText().max(70).optional().meta({ description: 'The id of the last file of the previous page.' }),
  purpose: plainText().max(64).optional(),
});

/** `/v1/files`, where OpenAI's clients store files that containers and responses then name by id. */
export const addStoredFileRoutes = ({ add }: Pick<Endpoints, 'add'>, uploads: Uploads): void => {
  add(
    {
      method: 'post',
      path: '/v1/files',
      summary: 'Store a file, for containers and responses that name it',
      tag,
      rawBody: { 'multipart/form-data': z.object({ file: binary, purpose: z.enum(purposes) }) },
      responses: { 200: { description: 'It is stored.', schema: fileSchema } },
    },
    async ({ c, owner }) => {
      using upload = openUpload(c);
      const fields: Record<string, string> = {};
      const row = await uploads.add(
        owner,
        async (store) => {
          let name: string | undefined;
          await readMultipart(
            upload.body,
            c.req.header('content-type') ?? '',
            async (path, content) => {
              if (name !== undefined) throw new CodeBoxError('invalid_request', 'Send one file.');
              name = path;
              await store(content);
            },
            upload.signal,
            {
              onField: (field, value) => {
                fields[field] = value;
              },
            },
          );
          const { purpose, expires_after } = checkInput(fieldsSchema, nested(fields), '');
          return { name: name ?? '', purpose, seconds: expires_after.seconds };
        },
        upload.signal,
      );
      return c.json(toFile(row));
    },
  );

  add(
    {
      method: 'get',
      path: '/v1/files',
      summary: 'List the stored files',
      tag,
      query: listQuery,
      responses: { 200: { description: 'A page of files.', schema: listSchema } },
    },
    async ({ c, owner, query: { after, ...query } }) => {
      const last = after === undefined ? undefined : await uploads.find(owner, after);
      const rows = await uploads.list(owner, { ...query, after: last });
      const data = rows.slice(0, query.limit).map(toFile);
      return c.json(openAiPage(data, rows.length > data.length));
    },
  );

  add(
    {
      method: 'get',
      path: '/v1/files/{file}',
      summary: 'Read the metadata of a stored file',
      tag,
      params,
      isFor: isStoredFile,
      responses: { 200: { description: 'It.', schema: fileSchema } },
    },
    async ({ c, owner, params }) => c.json(toFile(await uploads.find(owner, params.file))),
  );

  add(
    {
      method: 'get',
      path: '/v1/files/{file}/content',
      summary: 'Download a stored file',
      tag,
      params,
      isFor: isStoredFile,
      responses: { 200: { description: 'The bytes.', types: { 'application/octet-stream': binary } } },
    },
    async ({ c, owner, params }) => {
      const row = await uploads.find(owner, params.file);
      const name = row.name.split('/').at(-1) ?? row.name;
      const headers = { 'content-length': String(row.sizeBytes) };
      return sendFile(
        c,
        { name, mime: mimeOf(name), status: 200, headers, body: await uploads.open(row, c.req.raw.signal) },
        name,
      );
    },
  );

  add(
    {
      method: 'delete',
      path: '/v1/files/{file}',
      summary: 'Delete a stored file; copies in containers stay',
      tag,
      params,
      responses: { 200: { description: 'It was deleted.', schema: deletedSchema } },
    },
    async ({ c, owner, params }) => {
      await uploads.remove(owner, params.file);
      return c.json({ id: params.file, object: 'file', deleted: true });
    },
  );
};

const storedFile = /^\/v1\/files(?:\/file-[\w-]{0,64}(?:\/content)?)?$/;

/** Whether a path is one of these; links to files of chats, whose tokens are longer, begin with `/v1/files/` too. */
export const isStoredFilePath = (path: string): boolean => storedFile.test(path);

const isStoredFile = (c: { req: { path: string } }): boolean => isStoredFilePath(c.req.path);

/** Fields such as `expires_after[seconds]` as the objects that they stand for. */
const nested = (fields: Record<string, string>): Record<string, unknown> => {
  const found: Record<string, unknown> = {};
  for (const [name, value] of Object.entries(fields)) {
    const [, outer, inner] = /^(\w+)\[(\w+)\]$/.exec(name) ?? [];
    if (outer === undefined || inner === undefined) found[name] = value;
    else found[outer] = { ...(found[outer] as object | undefined), [inner]: value };
  }
  return found;
};

const seconds = (time: Date): number => Math.floor(time.getTime() / 1000);

const toFile = ({ id, name, purpose, sizeBytes, createdAt, expiresAt }: UploadRow): z.infer<typeof fileSchema> => ({
  id,
  object: 'file',
  bytes: sizeBytes,
  created_at: seconds(createdAt),
  expires_at: seconds(expiresAt),
  filename: name,
  purpose,
  status: 'processed',
});
