import type { Readable } from 'node:stream';
import { z } from 'zod';
import { type Chat, CodeBoxError, decodePath, type FileEntry, plainText, queryInteger, urlPathSchema } from '#contract';
import { readJsonBody } from '../../../http/bodies/body.ts';
import { readMultipart } from '../../../http/bodies/multipart.ts';
import { openUpload } from '../../../http/bodies/uploads.ts';
import { checkInput } from '../../../http/endpoints/endpoint.ts';
import { containerFileId, fromContainerFileId } from '../../../openai/container-file-id.ts';
import { openAiPage, openAiPageSchema } from '../../../openai/page.ts';
import { cursorAfter } from '../../../postgres/page.ts';
import type { Chats } from '../../chats/chats.ts';
import type { Files } from '../../chats/files/files.ts';
import { transfer } from '../../chats/files/transfer.ts';
import type { Uploads } from '../../chats/files/uploads.ts';
import type { Owner } from '../../chats/owner.ts';
import { readRange, sendFile } from '../../http/downloads.ts';
import type { Endpoints } from '../../http/endpoints.ts';
import type { UploadRow } from '../../store/uploads.ts';
import { containerId, fromContainerId } from './ids.ts';
import { maxFileIds } from './limits.ts';

const tag = 'OpenAI';
const params = z.object({ container: z.string().max(64) });
const fileParams = params.extend({ file: z.string().max(8192) });
/** How many files and folders of a container are considered: the first ones by path. */
const maxEntries = 10_000;

const containerSchema = z
  .object({
    id: z.string(),
    object: z.literal('container'),
    created_at: z.int(),
    last_active_at: z.int(),
    name: z.string(),
    status: z.literal('running'),
  })
  .meta({ id: 'Container', description: 'The box of a chat.' });

const fileSchema = z
  .object({
    id: z.string(),
    object: z.literal('container.file'),
    container_id: z.string(),
    path: z.string(),
    bytes: z.int(),
    created_at: z.int(),
    source: z.literal('assistant'),
  })
  .meta({ id: 'ContainerFile' });

const fileListSchema = openAiPageSchema('ContainerFileList', fileSchema);

const listQuery = z.object({
  limit: queryInteger().min(1).max(100).default(20),
  order: z.enum(['asc', 'desc']).default('desc'),
  after: z.string().max(8192).optional().meta({ description: 'The id of the last file of the previous page.' }),
});
const binary = z.string().meta({ format: 'binary' });

/** A field without a counterpart here. It is refused rather than ignored, because callers rely on its effect. */
const none = z.null({ error: 'is not supported' }).optional();
const nothing = z.array(z.unknown()).max(0, 'is not supported').nullish();

const newContainerSchema = z
  .object({
    name: plainText().trim().min(1).max(200),
    expires_after: none,
    memory_limit: none,
    network_policy: none,
    file_ids: z
      .array(plainText().max(70))
      .max(maxFileIds)
      .nullish()
      .meta({ description: 'Files of /v1/files, which are copied to it.' }),
    skills: nothing,
  })
  .meta({ id: 'NewContainer', description: 'It is kept until it is deleted.' });

const containerListSchema = openAiPageSchema('ContainerList', containerSchema);

const namedFileSchema = z.object({ file_id: plainText().max(70) });

const containersQuery = z.object({
  limit: queryInteger().min(1).max(100).default(20),
  order: z.literal('desc', { error: 'must be desc' }).default('desc'),
  after: plainText().max(64).optional().meta({ description: 'The id of the last container of the previous page.' }),
});

type FileFacts = Pick<FileEntry, 'path' | 'sizeBytes' | 'modifiedAt'>;

/** `/v1/containers`, where OpenAI's clients read the files that the code of a response created. */
export const addContainerRoutes = (
  { add }: Pick<Endpoints, 'add'>,
  { chats, files, uploads }: { chats: Chats; files: Files; uploads: Pick<Uploads, 'named' | 'open'> },
): void => {
  /** Copies a stored file to the box of a chat. */
  const copy = async (owner: Owner, chat: string, row: UploadRow, signal: AbortSignal): Promise<FileFacts> => {
    const source = await uploads.open(row, signal);
    const put = (content: Readable, both: AbortSignal) => files.put(owner, chat, row.name, content, both);
    const { path, sizeBytes } = await transfer(source, signal, put);
    return { path, sizeBytes: sizeBytes ?? 0, modifiedAt: new Date().toISOString() };
  };

  /** The metadata of a file; throws for a folder. */
  const read = async (owner: Owner, { container, file }: z.infer<typeof fileParams>): Promise<FileFacts> => {
    const path = pathIn(file);
    const { headers, body } = await files.open(owner, chatOf(container), path);
    body.destroy();
    const modifiedAt = headers['last-modified'] ?? new Date().toISOString();
    return { path, sizeBytes: Number(headers['content-length'] ?? 0), modifiedAt };
  };

  add(
    {
      method: 'post',
      path: '/v1/containers',
      summary: 'Create a container, as the tool code_interpreter of a response can name it',
      tag,
      body: newContainerSchema,
      responses: {
        200: { description: 'Its chat exists; the box begins with its first use.', schema: containerSchema },
      },
    },
    async ({ c, owner, body: { name, file_ids } }) => {
      const wanted = (file_ids ?? []).map((id, index) => ({ id, pointer: `/file_ids/${index}` }));
      const stored = await uploads.named(owner, wanted);
      const chat = await chats.create(owner, { title: name });
      try {
        for (const row of stored.values()) await copy(owner, chat.id, row, c.req.raw.signal);
      } catch (error) {
        // Without its files it is of no use, and its creator does not learn its id.
        await chats.remove(owner, chat.id);
        throw error;
      }
      return c.json(toContainer(chat));
    },
  );

  add(
    {
      method: 'get',
      path: '/v1/containers',
      summary: 'List the containers, the newest first',
      tag,
      query: containersQuery,
      responses: { 200: { description: 'A page of containers.', schema: containerListSchema } },
    },
    async ({ c, owner, query: { limit, after } }) => {
      const cursor = after === undefined ? undefined : cursorAfter(await chats.find(owner, chatOf(after)));
      const { items, nextCursor } = await chats.list(owner, { limit, cursor });
      const data = items.map(toContainer);
      return c.json(openAiPage(data, nextCursor !== null));
    },
  );

  add(
    {
      method: 'get',
      path: '/v1/containers/{container}',
      summary: 'Read the container of a response',
      tag,
      params,
      responses: { 200: { description: 'It.', schema: containerSchema } },
    },
    async ({ c, owner, params }) => c.json(toContainer(await chats.read(owner, chatOf(params.container)))),
  );

  add(
    {
      method: 'delete',
      path: '/v1/containers/{container}',
      summary: 'Delete a container with its chat and all its responses',
      tag,
      params,
      responses: { 204: { description: 'It was deleted.' } },
    },
    async ({ c, owner, params }) => {
      await chats.remove(owner, chatOf(params.container));
      return c.body(null, 204);
    },
  );

  add(
    {
      method: 'get',
      path: '/v1/containers/{container}/files',
      summary: `List the files of a container by the time of their last change, among its first ${maxEntries} entries by path`,
      tag,
      params,
      query: listQuery,
      responses: { 200: { description: 'A page of files.', schema: fileListSchema } },
    },
    async ({ c, owner, params, query }) => {
      const chat = chatOf(params.container);
      const entries = await files.all(owner, chat, maxEntries, c.req.raw.signal);
      const all = entries.filter(({ type }) => type === 'file').sort(byTime);
      if (query.order === 'desc') all.reverse();
      const after = query.after === undefined ? undefined : pathIn(query.after);
      const at = all.findIndex((entry) => pathOf(entry) === after);
      if (after !== undefined && at === -1) throw noFile();
      const data = all
        .slice(at + 1, at + 1 + query.limit)
        .map((entry) => toFile(chat, { ...entry, path: pathOf(entry) }));
      return c.json(openAiPage(data, at + 1 + data.length < all.length));
    },
  );

  add(
    {
      method: 'post',
      path: '/v1/containers/{container}/files',
      summary: 'Upload a file to a container, or copy a stored one to it',
      tag,
      params,
      rawBody: { 'multipart/form-data': z.object({ file: binary }), 'application/json': namedFileSchema },
      responses: { 200: { description: 'It is there.', schema: fileSchema } },
    },
    async ({ c, owner, params }) => {
      const chat = chatOf(params.container);
      const type = c.req.header('content-type') ?? '';
      if (/^application\/json\b/i.test(type)) {
        const { file_id: id } = checkInput(namedFileSchema, (await readJsonBody(c)).value, '');
        const row = (await uploads.named(owner, [{ id, pointer: '/file_id' }])).get(id);
        if (row) return c.json(toFile(chat, await copy(owner, chat, row, c.req.raw.signal)));
      }
      using upload = openUpload(c);
      const written: FileFacts[] = [];
      const write = async (path: string, content: Parameters<Files['put']>[3]) => {
        const { sizeBytes } = await files.put(owner, chat, path, content, upload.signal);
        written.push({ path, sizeBytes: sizeBytes ?? 0, modifiedAt: new Date().toISOString() });
      };
      await readMultipart(upload.body, type, write, upload.signal);
      const [first] = written;
      if (!first) throw new CodeBoxError('invalid_request', 'Send one file.');
      return c.json(toFile(chat, first));
    },
  );

  add(
    {
      method: 'get',
      path: '/v1/containers/{container}/files/{file}',
      summary: 'Read the metadata of a file of a container',
      tag,
      params: fileParams,
      responses: { 200: { description: 'It.', schema: fileSchema } },
    },
    async ({ c, owner, params }) => c.json(toFile(chatOf(params.container), await read(owner, params))),
  );

  add(
    {
      method: 'get',
      path: '/v1/containers/{container}/files/{file}/content',
      summary: 'Download a file of a container',
      tag,
      params: fileParams,
      responses: { 200: { description: 'The bytes.', types: { 'application/octet-stream': binary } } },
    },
    async ({ c, owner, params }) => {
      const file = await files.open(owner, chatOf(params.container), pathIn(params.file), readRange(c));
      return sendFile(c, file, file.name);
    },
  );

  add(
    {
      method: 'delete',
      path: '/v1/containers/{container}/files/{file}',
      summary: 'Delete a file of a container',
      tag,
      params: fileParams,
      responses: { 204: { description: 'It was deleted.' } },
    },
    async ({ c, owner, params }) => {
      const { path } = await read(owner, params);
      await files.remove(owner, chatOf(params.container), path);
      return c.body(null, 204);
    },
  );
};

const chatOf = (container: string): string => {
  const chat = fromContainerId(container);
  if (!chat) throw new CodeBoxError('not_found', 'There is no such container.');
  return chat;
};

/** The path that the id of a file encodes. */
const pathIn = (file: string): string => {
  const path = fromContainerFileId(file);
  if (path === undefined || !urlPathSchema.safeParse(path).success) throw noFile();
  return path;
};

const noFile = () => new CodeBoxError('not_found', 'There is no such file in the container.');

/** The path of an entry with all bytes of its name. */
const pathOf = ({ path, encodedPath }: FileEntry): string =>
  encodedPath === undefined ? path : decodePath(encodedPath);

const byTime = (a: FileEntry, b: FileEntry): number =>
  a.modifiedAt < b.modifiedAt ? -1 : Number(a.modifiedAt !== b.modifiedAt);

const seconds = (time: string): number => Math.floor(Date.parse(time) / 1000);

const toContainer = ({ id, title, createdAt, updatedAt }: Chat): z.infer<typeof containerSchema> => ({
  id: containerId(id),
  object: 'container',
  created_at: seconds(createdAt),
  last_active_at: seconds(updatedAt),
  name: title ?? id,
  status: 'running',
});

const toFile = (chat: string, { path, sizeBytes, modifiedAt }: FileFacts): z.infer<typeof fileSchema> => ({
  id: containerFileId(path),
  object: 'container.file',
  container_id: containerId(chat),
  path: `/mnt/data/${path.toWellFormed()}`,
  bytes: sizeBytes,
  created_at: seconds(modifiedAt),
  source: 'assistant',
});
