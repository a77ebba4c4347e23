import { Readable } from 'node:stream';
import { z } from 'zod';
import { notebookQuerySchema, runNotebookSchema } from '#contract';
import { downloadHeaders } from '../../../../http/bodies/downloads.ts';
import { largeJson } from '../../../../json/json-bounds.ts';
import type { Notebooks } from '../../../boxes/runs/notebooks.ts';
import type { Endpoints } from '../../endpoint.ts';
import { boxParams } from '../boxes/boxes.ts';
import { type CommandResponses, startsCommand } from './commands.ts';

const tag = 'Notebooks';
const notebookType = 'application/x-ipynb+json';

/** `/v1/boxes/{box}/notebooks` and `…/notebook`: run notebooks, and make one from the executions of a box. */
export const addNotebookRoutes = ({ add }: Endpoints, notebooks: Notebooks, runs: CommandResponses): void => {
  add(
    {
      method: 'post',
      path: '/v1/boxes/{box}/notebooks',
      scope: 'run',
      summary: 'Run a notebook whole; wait, stream its cells, or detach',
      tag,
      params: boxParams,
      body: runNotebookSchema,
      bounds: largeJson,
      ...startsCommand(runs, {
        whole: 'The run as a command, whose `outputs` have its cells, or its events, by Accept.',
        detached: 'The notebook runs; its events are at Location.',
      }),
    },
    ({ c, tenant, params, body }) => {
      const ref = { tenant, box: params.box };
      return runs.start(c, ref, (leave, onAccepted) => notebooks.run(ref, body, leave, onAccepted));
    },
  );

  add(
    {
      method: 'get',
      path: '/v1/boxes/{box}/notebook',
      scope: 'boxes:read',
      summary: 'Download the executions of a box as a notebook',
      tag,
      params: boxParams,
      query: notebookQuerySchema,
      responses: {
        200: {
          description: 'An `.ipynb` file with a cell for each execution.',
          types: { [notebookType]: z.record(z.string(), z.unknown()) },
        },
      },
    },
    async ({ c, tenant, params, query }) => {
      const body = await notebooks.export({ tenant, box: params.box }, query);
      const headers = downloadHeaders('notebook.ipynb', notebookType);
      if (c.req.method !== 'HEAD') return c.body(Readable.toWeb(body) as ReadableStream, 200, headers);
      // Hono drops the body of a response to HEAD without ending it.
      body.destroy();
      return c.body(null, 200, headers);
    },
  );
};
