import type { Readable } from 'node:stream';
import { z } from 'zod';
import { type FileEntry, fileEntrySchema, fileOperationSchema } from '#contract';
import { readJsonBody } from '../../../../http/bodies/body.ts';
import { readMultipart } from '../../../../http/bodies/multipart.ts';
import { openUpload } from '../../../../http/bodies/uploads.ts';
import { checkInput } from '../../../../http/endpoints/endpoint.ts';
import type { Files } from '../../../boxes/reach/files.ts';
import type { Endpoints } from '../../endpoint.ts';
import { boxParams } from '../boxes/boxes.ts';

const binary = z.string().meta({ format: 'binary' });
const uploadSchema = z.object({ items: z.array(fileEntrySchema) }).meta({ id: 'Upload' });
const resultTypes = { 'application/json': z.union([uploadSchema, fileEntrySchema]) };

/** `POST /v1/boxes/{box}/files`: uploads of many files, and operations other than reading and writing one file. */
export const addFileOperationRoutes = ({ add }: Endpoints, files: Files): void => {
  add(
    {
      method: 'post',
      path: '/v1/boxes/{box}/files',
      scope: 'files',
      summary: 'Upload many files as multipart/form-data, or create, move, copy, extract or fetch files',
      tag: 'Files',
      params: boxParams,
      rawBody: { 'multipart/form-data': z.record(z.string(), binary), 'application/json': fileOperationSchema },
      responses: {
        201: { description: 'The entries that were written.', types: resultTypes },
        200: { description: 'The entry that was moved or existed already.', schema: fileEntrySchema },
      },
    },
    async ({ c, tenant, params }) => {
      const ref = { tenant, box: params.box };
      const type = c.req.header('content-type') ?? '';
      if (!type.toLowerCase().startsWith('multipart/form-data')) {
        const operation = checkInput(fileOperationSchema, (await readJsonBody(c)).value, '');
        const leave = new AbortController();
        c.env?.outgoing?.once('close', () => leave.abort());
        const { entry, isNew } = await files.operate(ref, operation, leave.signal);
        return c.json(entry, isNew ? 201 : 200);
      }
      using upload = openUpload(c);
      const { body, signal } = upload;
      const items: FileEntry[] = [];
      const write = async (path: string, content: Readable) => {
        items.push((await files.put(ref, path, content, { signal })).entry);
      };
      await readMultipart(body, type, write, signal);
      return c.json({ items }, 201);
    },
  );
};
