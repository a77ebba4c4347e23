import type { IncomingMessage } from 'node:http';
import type { Readable } from 'node:stream';
import { createGunzip } from 'node:zlib';
import { z } from 'zod';
import { CodeBoxError, type FileEntry } from '#contract';
import { readMultipart } from '../../../../http/bodies/multipart.ts';
import { openUpload } from '../../../../http/bodies/uploads.ts';
import type { RouteParts } from '../../../http/app.ts';
import { sendFile } from '../../../http/downloads.ts';
import type { Endpoints } from '../../../http/endpoint.ts';
import { toBoxPath, toSandboxPath } from '../paths.ts';
import type { Running } from '../running.ts';

const described = { tag: 'Files', responses: {} };
/** The other parameters belong to signed URLs, or name a user: a box has only one. */
const query = z.object({ path: z.string().max(4096).optional() });

const toWritten = ({ path, metadata }: FileEntry) => ({
  path: toSandboxPath(path),
  name: path.split('/').at(-1),
  type: 'file' as const,
  ...(metadata && { metadata }),
});

const metadataPrefix = 'x-metadata-';

/** Returns what a request notes about the files that it uploads. */
const metadataIn = ({ headers }: IncomingMessage): Record<string, string> =>
  Object.fromEntries(
    Object.entries(headers).flatMap(([name, value]) =>
      name.startsWith(metadataPrefix) ? [[name.slice(metadataPrefix.length), String(value)]] : [],
    ),
  );

/** `/files` of E2B's daemon: bytes up and down. */
export const addFileRoutes = (
  { add, addRaw }: Endpoints,
  { files }: Pick<RouteParts, 'files'>,
  running: Running,
): void => {
  add(
    { ...described, method: 'get', path: '/files', scope: 'files', summary: 'Download a file', query },
    async ({ c, query: { path = '' } }) => {
      const opened = await files.open(await running.of(c), toBoxPath(path));
      if (opened.kind === 'folder')
        throw new CodeBoxError('invalid_request', `The path ${path} is a directory: list it instead.`);
      return sendFile(c, opened, { 'content-type': 'application/octet-stream' }, opened.body);
    },
  );

  addRaw(
    { ...described, method: 'post', path: '/files', scope: 'files', summary: 'Upload files' },
    async ({ c, incoming }) => {
      const { path } = query.parse(c.req.query());
      const ref = await running.of(c);
      const metadata = metadataIn(incoming);
      using upload = openUpload(c);
      const written: FileEntry[] = [];
      const put = async (to: string, body: Readable) => {
        const { entry } = await files.put(ref, toNewPath(to), body, { metadata, signal: upload.signal });
        const isNoted = Object.keys(metadata).every((name) => entry.metadata?.[name] !== undefined);
        if (!isNoted) throw new CodeBoxError('conflict', 'The image of this sandbox keeps no metadata of files.');
        written.push(entry);
      };
      const type = c.req.header('content-type') ?? '';
      if (/^multipart\/form-data/i.test(type)) {
        // The name of each part is its path, unless the query names that of a single file.
        const write = (name: string, body: Readable) => put(path ?? name, body);
        await readMultipart(upload.body, type, write, upload.signal, { pathSchema: z.string(), fileField: 'file' });
      } else await put(path ?? '', decoded(upload.body, incoming.headers['content-encoding']));
      return c.json(written.map(toWritten));
    },
  );
};

const toNewPath = (path: string): string => {
  const relative = toBoxPath(path);
  if (path !== '' && relative !== '') return relative;
  throw new CodeBoxError('invalid_request', 'The path of the file is missing, or is that of the home folder.');
};

const decoded = (body: Readable, coding = 'identity'): Readable => {
  if (coding === 'identity') return body;
  if (coding !== 'gzip') throw new CodeBoxError('invalid_request', 'The Content-Encoding must be gzip or identity.');
  const gunzip = createGunzip();
  body.once('error', (error) => gunzip.destroy(error));
  gunzip.once('error', () => body.resume());
  return body.pipe(gunzip);
};
