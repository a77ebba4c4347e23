import { posix } from 'node:path';
import { getMimeType } from 'hono/utils/mime';
import { z } from 'zod';
import { CodeBoxError, type FileEntry, plainText, urlPathSchema } from '#contract';
import { readMultipart } from '../../../http/bodies/multipart.ts';
import { openUpload } from '../../../http/bodies/uploads.ts';
import { checkInput } from '../../../http/endpoints/endpoint.ts';
import { workingFolder } from '../../boxes/life/working-folder.ts';
import type { Files } from '../../boxes/reach/files.ts';
import type { Endpoints } from '../../http/endpoint.ts';
import { respondWithFile } from '../files.ts';
import { type Homes, toAbsolute, toBoxPath } from './homes.ts';

const described = { scope: 'files', tag: 'Open Terminal', responses: {} } as const;
const path = plainText().min(1).max(4096);
const never = () => AbortSignal.any([]);
const typeOf = (name: string) => ({ 'content-type': getMimeType(name) ?? 'application/octet-stream' });

/** Routes for the file browser of Open WebUI. */
export const addFileRoutes = ({ add, addRaw }: Endpoints, files: Files, homes: Homes): void => {
  add({ ...described, method: 'get', path: '/openterminal/files/cwd', summary: 'Read the home folder' }, ({ c }) =>
    c.json({ cwd: workingFolder, home: workingFolder, root: workingFolder }),
  );

  addRaw(
    { ...described, method: 'get', path: '/openterminal/files/view', summary: 'Download a file' },
    async ({ c, tenant }) => {
      const name = toBoxPath(checkInput(path, c.req.query('path'), '/query/path'));
      return await respondWithFile(c, files, await homes.find(c, tenant), name, typeOf(name));
    },
  );

  addRaw(
    {
      ...described,
      method: 'get',
      path: '/openterminal/files/serve/{path}',
      summary: 'Download a file by its absolute path',
      params: z.object({ path: urlPathSchema }),
    },
    async ({ c, tenant, params }) => {
      const name = toBoxPath(`/${params.path}`);
      return await respondWithFile(c, files, await homes.find(c, tenant), name, typeOf(name));
    },
  );

  add(
    {
      ...described,
      method: 'post',
      path: '/openterminal/files/mkdir',
      summary: 'Create a folder',
      body: z.object({ path }),
    },
    async ({ c, tenant, body }) => {
      await files.operate(await homes.of(c, tenant), { op: 'mkdir', path: toBoxPath(body.path) }, never());
      return c.json({ path: toAbsolute(body.path) });
    },
  );

  add(
    {
      ...described,
      method: 'post',
      path: '/openterminal/files/move',
      summary: 'Move a file or a folder',
      body: z.object({ source: path, destination: path }),
    },
    async ({ c, tenant, body: { source, destination } }) => {
      const operation = { op: 'move', from: toBoxPath(source), to: toBoxPath(destination) } as const;
      await files.operate(await homes.find(c, tenant), operation, never());
      return c.json({ source: toAbsolute(source), destination: toAbsolute(destination) });
    },
  );

  add(
    {
      ...described,
      method: 'delete',
      path: '/openterminal/files/delete',
      summary: 'Delete a file or a folder',
      query: z.object({ path }),
    },
    async ({ c, tenant, query }) => {
      const name = toBoxPath(query.path);
      if (name === '') throw new CodeBoxError('invalid_request', 'The home folder cannot be deleted.');
      const ref = await homes.find(c, tenant);
      const { kind } = await files.stat(ref, name);
      await files.remove(ref, name);
      return c.json({ path: toAbsolute(query.path), type: kind === 'folder' ? 'directory' : 'file' });
    },
  );

  addRaw(
    { ...described, method: 'post', path: '/openterminal/files/upload', summary: 'Upload a file to a folder' },
    async ({ c, tenant }) => {
      const folder = toBoxPath(checkInput(plainText().max(4096), c.req.query('directory') ?? '', '/query/directory'));
      const ref = await homes.of(c, tenant);
      using upload = openUpload(c);
      const written: FileEntry[] = [];
      await readMultipart(
        upload.body,
        c.req.header('content-type') ?? '',
        async (name, body) => {
          const to = checkInput(urlPathSchema, posix.join(folder, posix.basename(name)), '/file');
          const { entry } = await files.put(ref, to, body, { signal: upload.signal });
          written.push(entry);
        },
        upload.signal,
        { pathSchema: z.string() },
      );
      const [first] = written;
      return c.json({ path: toAbsolute(first?.path ?? folder), size: first?.sizeBytes ?? 0 });
    },
  );
};
