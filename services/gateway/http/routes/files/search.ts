import { searchPageSchema, searchQuerySchema } from '#contract';
import type { Files } from '../../../boxes/reach/files.ts';
import type { Endpoints } from '../../endpoint.ts';
import { boxParams } from '../boxes/boxes.ts';

/** `GET /v1/boxes/{box}/files:search`. */
export const addFileSearchRoute = ({ add }: Endpoints, files: Files): void => {
  add(
    {
      method: 'get',
      path: '/v1/boxes/{box}/files:search',
      scope: 'files',
      summary: 'Find files by name and lines by content; binary files are left out',
      tag: 'Files',
      params: boxParams,
      query: searchQuerySchema,
      responses: { 200: { description: 'A page of matches.', schema: searchPageSchema } },
    },
    async ({ c, tenant, params, query }) => {
      const leave = new AbortController();
      c.env?.outgoing?.once('close', () => leave.abort());
      return c.json(await files.search({ tenant, box: params.box }, query, leave.signal));
    },
  );
};
