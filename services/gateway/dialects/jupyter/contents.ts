import { z } from 'zod';
import { CodeBoxError, encodePath, urlPathSchema } from '#contract';
import { openUpload } from '../../../http/bodies/uploads.ts';
import type { RouteParts } from '../../http/app.ts';
import { sendFile } from '../../http/downloads.ts';
import type { Endpoints } from '../../http/endpoint.ts';
import type { Places } from './places.ts';
import { respondWith } from './responses.ts';

const described = { scope: 'run', tag: 'Jupyter', responses: {} } as const;
const params = z.object({ path: urlPathSchema });
const maxBodyBytes = 100 * 1024 * 1024;
/** The query parameters that are forwarded; the token is not. */
const queryNames = ['type', 'format', 'content', 'hash', 'require_hash'];
const methods = ['get', 'post', 'put', 'patch', 'delete'] as const;

/** `/jupyter/{name}/api/contents`: files and notebooks as JSON, which the Jupyter server in the box reads and writes. */
export const addContentRoutes = ({ addRaw }: Endpoints, parts: RouteParts, places: Places): void => {
  const { files, jupyter } = parts;

  const addContents = (method: (typeof methods)[number], route: string, schema: z.ZodType<{ path?: string }>) =>
    addRaw(
      {
        ...described,
        method,
        path: `/jupyter/{name}/api/contents${route}`,
        summary: `The request \`${method}\` for contents`,
        params: schema,
      },
      async ({ c, tenant, params: { path = '' } }) => {
        const given = Object.entries(c.req.query()).filter(([name]) => queryNames.includes(name));
        const search = new URLSearchParams(given);
        const place = path === '' ? 'contents' : `contents/${encodePath(path)}`;
        const ask = { path: `${place}?${search}`, method: method.toUpperCase() as Uppercase<typeof method> };
        if (method === 'get' || method === 'delete')
          return respondWith(c, await jupyter.request(await places.boxOf(c, tenant), ask));
        const tooLarge = new CodeBoxError('too_large', `A body has at most ${maxBodyBytes} bytes.`);
        if (Number(c.req.header('content-length') ?? 0) > maxBodyBytes) throw tooLarge;
        const ref = await places.boxOf(c, tenant);
        using upload = openUpload(c);
        const { body, signal } = upload;
        let bytes = 0;
        body.on('data', (chunk: Buffer) => {
          bytes += chunk.length;
          if (bytes > maxBodyBytes) body.destroy(tooLarge);
        });
        return respondWith(c, await jupyter.request(ref, { ...ask, body, signal }));
      },
    );

  for (const method of methods) {
    addContents(method, '', z.object({}));
    addContents(method, '/{path}', params);
  }

  addRaw(
    { ...described, method: 'get', path: '/jupyter/{name}/files/{path}', summary: 'Download a file', params },
    async ({ c, tenant, params: { path } }) => {
      const opened = await files.open(await places.boxOf(c, tenant), path);
      if (opened.kind === 'folder') throw new CodeBoxError('not_found', 'There is a folder at this path, not a file.');
      const headers = { 'content-type': 'application/octet-stream', 'content-disposition': 'attachment' };
      return sendFile(c, opened, headers, opened.body);
    },
  );
};
