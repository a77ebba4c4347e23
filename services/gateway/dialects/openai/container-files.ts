import { z } from 'zod';
import { CodeBoxError, decodePath, type FileEntry, maxFolderDepth, queryInteger, urlPathSchema } from '#contract';
import { containerFileId, fromContainerFileId } from '../../../openai/container-file-id.ts';
import { openAiPage } from '../../../openai/page.ts';
import type { BoxRef } from '../../boxes/box-ref.ts';
import { workingFolder } from '../../boxes/life/working-folder.ts';
import type { RouteParts } from '../../http/app.ts';
import type { Endpoints } from '../../http/endpoint.ts';
import { receiveFiles, respondWithFile } from '../files.ts';
import { seconds, toContainerId } from './containers.ts';

const described = { scope: 'files', tag: 'Containers', responses: {} } as const;
const params = z.object({ box: z.string() });
const fileParams = params.extend({ file: z.string().max(8192) });
/** How many files and folders of a container are considered: the first ones by path. */
const maxEntries = 10_000;
const pageSize = 1000;

const listSchema = z.object({
  limit: queryInteger().min(1).max(100).default(20),
  order: z.enum(['asc', 'desc']).default('desc'),
  after: z.string().max(8192).optional(),
});

const noFile = () => new CodeBoxError('not_found', 'There is no such file in the container.');

/** The path that the id of a file encodes. */
const pathIn = (file: string): string => {
  const path = fromContainerFileId(file);
  if (path === undefined || !urlPathSchema.safeParse(path).success) throw noFile();
  return path;
};

/** The path of an entry with all bytes of its name. */
const pathOf = ({ path, encodedPath }: Pick<FileEntry, 'path' | 'encodedPath'>): string =>
  encodedPath === undefined ? path : decodePath(encodedPath);

const byTime = (a: FileEntry, b: FileEntry): number =>
  a.modifiedAt < b.modifiedAt ? -1 : Number(a.modifiedAt !== b.modifiedAt);

/** Boxes do not record who created a file, so `source` is the user in the response to an upload only. */
const toFile = (
  box: string,
  path: string,
  sizeBytes: number,
  modifiedAt: Date,
  source: 'user' | 'assistant' = 'assistant',
) => ({
  id: containerFileId(path),
  object: 'container.file' as const,
  container_id: toContainerId(box),
  created_at: seconds(modifiedAt),
  bytes: sizeBytes,
  path: `${workingFolder}/${path.toWellFormed()}`,
  source,
});

const ofEntry = (box: string, entry: FileEntry, source?: 'user') =>
  toFile(box, pathOf(entry), entry.sizeBytes, new Date(entry.modifiedAt), source);

/** The files of a container: those below the working folder of its box. Their ids encode their paths. */
export const addContainerFileRoutes = ({ add, addRaw }: Endpoints, { files }: Pick<RouteParts, 'files'>): void => {
  /** Returns the first `maxEntries` files and folders of a box, without the folders. */
  const listAll = async (ref: BoxRef): Promise<FileEntry[]> => {
    const entries: FileEntry[] = [];
    let cursor: string | undefined;
    do {
      const page = await files.list(ref, '', { depth: maxFolderDepth, limit: pageSize, cursor });
      entries.push(...page.items);
      cursor = page.nextCursor ?? undefined;
    } while (cursor !== undefined && entries.length < maxEntries);
    return entries.filter(({ type }) => type === 'file');
  };

  const read = async (ref: BoxRef, path: string) => {
    const { kind, lengthBytes = 0, modifiedAt = new Date() } = await files.stat(ref, path);
    if (kind === 'folder') throw noFile();
    return toFile(ref.box, path, lengthBytes, modifiedAt);
  };

  addRaw(
    {
      ...described,
      method: 'post',
      path: '/v1/containers/{box}/files',
      summary: 'Upload a file to a container',
      params,
    },
    async ({ c, tenant, params: { box } }) => {
      if (/^application\/json/i.test(c.req.header('content-type') ?? ''))
        throw new CodeBoxError('invalid_request', 'Send the file itself as multipart/form-data.', {
          errors: [{ pointer: '/file_id', detail: 'is not supported' }],
        });
      const [entry] = await receiveFiles(c, files, { tenant, box });
      if (!entry) throw new CodeBoxError('invalid_request', 'Send one file.');
      return c.json(ofEntry(box, entry, 'user'));
    },
  );

  add(
    {
      ...described,
      method: 'get',
      path: '/v1/containers/{box}/files',
      summary: 'List the files of a container by the time of their last change',
      params,
      query: listSchema,
    },
    async ({ c, tenant, params: { box }, query }) => {
      const all = (await listAll({ tenant, box })).sort(byTime);
      if (query.order === 'desc') all.reverse();
      const after = query.after === undefined ? undefined : pathIn(query.after);
      const at = all.findIndex((entry) => pathOf(entry) === after);
      if (after !== undefined && at === -1) throw noFile();
      const data = all.slice(at + 1, at + 1 + query.limit).map((entry) => ofEntry(box, entry));
      return c.json(openAiPage(data, at + 1 + data.length < all.length));
    },
  );

  add(
    {
      ...described,
      method: 'get',
      path: '/v1/containers/{box}/files/{file}',
      summary: 'Read the metadata of a file',
      params: fileParams,
    },
    async ({ c, tenant, params: { box, file } }) => c.json(await read({ tenant, box }, pathIn(file))),
  );

  addRaw(
    {
      ...described,
      method: 'get',
      path: '/v1/containers/{box}/files/{file}/content',
      summary: 'Download a file',
      params: fileParams,
    },
    async ({ c, tenant, params: { box, file } }) => respondWithFile(c, files, { tenant, box }, pathIn(file), {}),
  );

  add(
    {
      ...described,
      method: 'delete',
      path: '/v1/containers/{box}/files/{file}',
      summary: 'Delete a file',
      params: fileParams,
    },
    async ({ c, tenant, params: { box, file } }) => {
      const path = pathIn(file);
      const { id } = await read({ tenant, box }, path);
      await files.remove({ tenant, box }, path);
      return c.json({ id, object: 'container.file.deleted', deleted: true });
    },
  );
};
