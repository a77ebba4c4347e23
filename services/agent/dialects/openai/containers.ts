import { z } from 'zod';
import { boxPathSchema, type Chat, type ChatEntry, CodeBoxError, queryInteger } from '#contract';
import { readMultipart } from '../../../http/multipart.ts';
import { openUpload } from '../../../http/uploads.ts';
import type { Chats } from '../../chats/chats.ts';
import type { Files } from '../../chats/files.ts';
import type { Owner } from '../../chats/owner.ts';
import { readRange, sendFile } from '../../http/downloads.ts';
import type { Endpoints } from '../../http/endpoints.ts';
import { containerFileId, containerId, fromContainerId } from './ids.ts';

const tag = 'OpenAI';
const params = z.object({ container: z.string().max(64) });
const fileParams = params.extend({ file: z.string().max(64) });
const maxFiles = 1000;

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

const fileListSchema = z
  .object({
    object: z.literal('list'),
    data: z.array(fileSchema),
    first_id: z.string().nullable(),
    last_id: z.string().nullable(),
    has_more: z.boolean(),
  })
  .meta({ id: 'ContainerFileList' });

const listQuery = z.object({
  limit: queryInteger().min(1).max(100).default(20),
  order: z.enum(['asc', 'desc']).default('desc'),
  after: z.string().max(64).optional(),
});
const binary = z.string().meta({ format: 'binary' });

/** `/v1/containers`, as OpenAI's clients read what code of a response has made. */
export const addContainerRoutes = ({ add }: Endpoints, chats: Chats, files: Files): void => {
  /** All files of the box, folders after those before them. */
  const filesOf = async (owner: Owner, chat: string): Promise<ChatEntry[]> => {
    const found: ChatEntry[] = [];
    const folders = [''];
    for (let folder = folders.shift(); folder !== undefined && found.length < maxFiles; folder = folders.shift()) {
      for (const entry of await files.list(owner, chat, folder, maxFiles - found.length)) {
        if (entry.type === 'directory') folders.push(entry.path);
        else if (entry.type === 'file') found.push(entry);
      }
    }
    return found;
  };

  const findFile = async (owner: Owner, container: string, id: string): Promise<ChatEntry> => {
    const all = await filesOf(owner, chatOf(container));
    const found = all.find(({ path }) => containerFileId(path) === id);
    if (!found) throw new CodeBoxError('not_found', 'There is no such file in the container.');
    return found;
  };

  add(
    {
      method: 'get',
      path: '/v1/containers/{container}',
      summary: 'The container of a response',
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
      summary: 'Remove a container with its chat and the responses of it',
      tag,
      params,
      responses: { 204: { description: 'It is gone.' } },
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
      summary: 'The files of a container, by time of their last change',
      tag,
      params,
      query: listQuery,
      responses: { 200: { description: 'A page of them.', schema: fileListSchema } },
    },
    async ({ c, owner, params, query }) => {
      const chat = chatOf(params.container);
      const all = (await filesOf(owner, chat)).sort((a, b) => Date.parse(a.modifiedAt) - Date.parse(b.modifiedAt));
      if (query.order === 'desc') all.reverse();
      const at = all.findIndex(({ path }) => containerFileId(path) === query.after);
      const data = all.slice(at + 1, at + 1 + query.limit).map((entry) => toFile(chat, entry));
      const ids = { first_id: data[0]?.id ?? null, last_id: data.at(-1)?.id ?? null };
      return c.json({ object: 'list', data, ...ids, has_more: at + 1 + data.length < all.length });
    },
  );

  add(
    {
      method: 'post',
      path: '/v1/containers/{container}/files',
      summary: 'Put a file into a container',
      tag,
      params,
      rawBody: { 'multipart/form-data': z.object({ file: binary }) },
      responses: { 200: { description: 'It is there.', schema: fileSchema } },
    },
    async ({ c, owner, params }) => {
      const chat = chatOf(params.container);
      using upload = openUpload(c);
      const written: ChatEntry[] = [];
      const write = async (path: string, content: Parameters<Files['put']>[3]) => {
        const { name, sizeBytes, url } = await files.put(
          owner,
          chat,
          boxPathSchema.parse(path),
          content,
          upload.signal,
        );
        const modifiedAt = new Date().toISOString();
        written.push({ path, name, type: 'file', sizeBytes: sizeBytes ?? 0, modifiedAt, url });
      };
      await readMultipart(upload.body, c.req.header('content-type') ?? '', write, upload.signal);
      const [first] = written;
      if (!first) throw new CodeBoxError('invalid_request', 'Send one file.');
      return c.json(toFile(chat, first));
    },
  );

  add(
    {
      method: 'get',
      path: '/v1/containers/{container}/files/{file}',
      summary: 'A file of a container',
      tag,
      params: fileParams,
      responses: { 200: { description: 'It.', schema: fileSchema } },
    },
    async ({ c, owner, params }) =>
      c.json(toFile(chatOf(params.container), await findFile(owner, params.container, params.file))),
  );

  add(
    {
      method: 'get',
      path: '/v1/containers/{container}/files/{file}/content',
      summary: 'The bytes of a file of a container',
      tag,
      params: fileParams,
      responses: { 200: { description: 'The bytes.', types: { 'application/octet-stream': binary } } },
    },
    async ({ c, owner, params }) => {
      const { path, name } = await findFile(owner, params.container, params.file);
      return sendFile(c, await files.open(owner, chatOf(params.container), path, readRange(c)), name);
    },
  );

  add(
    {
      method: 'delete',
      path: '/v1/containers/{container}/files/{file}',
      summary: 'Remove a file of a container',
      tag,
      params: fileParams,
      responses: { 204: { description: 'It is gone.' } },
    },
    async ({ c, owner, params }) => {
      const { path } = await findFile(owner, params.container, params.file);
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

const seconds = (time: string): number => Math.floor(Date.parse(time) / 1000);

const toContainer = ({ id, title, createdAt, updatedAt }: Chat): z.infer<typeof containerSchema> => ({
  id: containerId(id),
  object: 'container',
  created_at: seconds(createdAt),
  last_active_at: seconds(updatedAt),
  name: title ?? id,
  status: 'running',
});

const toFile = (chat: string, { path, sizeBytes, modifiedAt }: ChatEntry): z.infer<typeof fileSchema> => ({
  id: containerFileId(path),
  object: 'container.file',
  container_id: containerId(chat),
  path: `/mnt/data/${path}`,
  bytes: sizeBytes,
  created_at: seconds(modifiedAt),
  source: 'assistant',
});
