import { posix } from 'node:path';
import { getMimeType } from 'hono/utils/mime';
import { z } from 'zod';
import { CodeBoxError } from '#contract';
import type { RouteParts } from '../../http/app.ts';
import type { Endpoints } from '../../http/endpoint.ts';
import { respondWithFile } from '../files.ts';
import { askerOf, type SessionFile, type Sessions } from './sessions.ts';

const described = { scope: 'files', tag: 'LibreChat', responses: {} } as const;
const params = z.object({ session: z.string().max(64) });
const fileParams = params.extend({ file: z.string().max(64) });
/** Other parameters, which name the owner of the files, have no effect: the key decides. */
const listSchema = z.object({ detail: z.enum(['simple', 'summary', 'full', 'normalized']).default('simple') });

const typeOf = (path: string): string => getMimeType(path) ?? 'application/octet-stream';

/** Renders a file of a list in one of LibreChat's forms. */
const listed = (session: string, { id, path, entry }: SessionFile, detail: z.output<typeof listSchema>['detail']) => {
  const name = `${session}/${id}${posix.extname(path)}`;
  const { sizeBytes: size, modifiedAt: lastModified, etag = '' } = entry;
  switch (detail) {
    case 'simple':
      return name;
    case 'summary':
      return { name, lastModified };
    case 'full':
      return { name, size, lastModified, etag, metadata: { 'original-filename': path }, contentType: typeOf(path) };
    case 'normalized':
      return { id, name: path, storage_session_id: session, size, contentType: typeOf(path), lastModified };
  }
};

/** The files of a session. Their ids are derived from their paths. */
export const addFileRoutes = (
  { add, addRaw }: Endpoints,
  { files }: Pick<RouteParts, 'files'>,
  sessions: Sessions,
): void => {
  add(
    {
      ...described,
      method: 'get',
      path: '/librechat/files/{session}',
      summary: 'List the files of a session',
      params,
      query: listSchema,
    },
    async ({ c, tenant, params: { session }, query: { detail } }) => {
      const all = await sessions.list(await sessions.find(c, tenant, session, askerOf(c)));
      return c.json(all.map((file) => listed(session, file, detail)));
    },
  );

  addRaw(
    {
      ...described,
      method: 'get',
      path: '/librechat/download/{session}/{file}',
      summary: 'Download a file',
      params: fileParams,
    },
    async ({ c, tenant, params: { session, file } }) => {
      const ref = await sessions.find(c, tenant, session, askerOf(c));
      const { path } = await sessions.findFile(ref, file);
      if (!path.isWellFormed()) throw new CodeBoxError('invalid_request', 'The name of the file is not text.');
      const disposition = `attachment; filename*=UTF-8''${encodeURIComponent(posix.basename(path))}`;
      return await respondWithFile(c, files, ref, path, {
        'content-type': typeOf(path),
        'content-disposition': disposition,
      });
    },
  );

  add(
    {
      ...described,
      method: 'get',
      path: '/librechat/sessions/{session}/objects/{file}',
      summary: 'Read the metadata of a file',
      params: fileParams,
      query: z.object({}),
    },
    async ({ c, tenant, params: { session, file } }) => {
      const ref = await sessions.find(c, tenant, session, askerOf(c));
      const { path, entry, id } = await sessions.findFile(ref, file);
      const { sizeBytes: size, modifiedAt: lastModified, etag = '' } = entry;
      const name = `${session}/${id}${posix.extname(path)}`;
      const facts = { size, lastModified, etag, contentType: typeOf(path), readOnly: false };
      return c.json({ name, originalFilename: path, ...facts });
    },
  );

  add(
    {
      ...described,
      method: 'delete',
      path: '/librechat/files/{session}/{file}',
      summary: 'Delete a file',
      params: fileParams,
      query: z.object({}),
    },
    async ({ c, tenant, params: { session, file } }) => {
      const ref = await sessions.find(c, tenant, session, askerOf(c));
      const { path } = await sessions.findFile(ref, file);
      await files.remove(ref, path);
      return c.json({ message: 'File deleted successfully', session_id: session, fileId: file });
    },
  );
};
