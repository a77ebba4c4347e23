import type { Context } from 'hono';
import { z } from 'zod';
import {
  createExportSchema,
  type Export,
  type ExportSummary,
  exportPageSchema,
  exportSchema,
  pageQuerySchema,
} from '#contract';
import { largeJson } from '../../../../json/json-bounds.ts';
import type { Exports } from '../../../boxes/exports/exports.ts';
import type { ExportRow, ExportSummaryRow } from '../../../store/box/exports.ts';
import type { Endpoints } from '../../endpoint.ts';
import type { Env } from '../../env.ts';
import { locationOf } from '../../idempotency/location.ts';
import { boxParams } from '../boxes/boxes.ts';

const params = boxParams.extend({ export: z.string().max(64) });
const tag = 'Exports';

/** `/v1/boxes/{box}/exports`: files of a box that are written to a store of the tenant. */
export const addExportRoutes = ({ add }: Endpoints, exports: Exports, stopping: AbortSignal): void => {
  add(
    {
      method: 'post',
      path: '/v1/boxes/{box}/exports',
      scope: 'files',
      summary: 'Write files and folders to a bucket, or to presigned URLs',
      tag,
      params: boxParams,
      body: createExportSchema,
      bounds: largeJson,
      idempotent: {
        replay: async ({ c, tenant, params: { box } }, { id }) => respond(c, await exports.find({ tenant, box }, id)),
      },
      responses: {
        201: { description: 'The export has ended; `state` says how.', schema: exportSchema },
        202: { description: 'The export runs in the background.', schema: exportSchema },
      },
    },
    async ({ c, tenant, params, body }) => {
      const leave = new AbortController();
      c.env?.outgoing?.once('close', () => leave.abort());
      const { box } = params;
      const progress = c.get('progress');
      const row = await exports.create({ tenant, box }, body, {
        leave: AbortSignal.any([leave.signal, stopping]),
        onAccepted: progress && ((id) => progress.mayStart({ kind: 'export', box, id })),
      });
      await progress?.hasStarted();
      return respond(c, row);
    },
  );

  add(
    {
      method: 'get',
      path: '/v1/boxes/{box}/exports',
      scope: 'files',
      summary: 'List exports, the newest first',
      tag,
      params: boxParams,
      query: pageQuerySchema,
      responses: { 200: { description: 'A page of exports, without their files.', schema: exportPageSchema } },
    },
    async ({ c, tenant, params, query }) => {
      const page = await exports.list({ tenant, box: params.box }, query);
      return c.json({ ...page, items: page.items.map(toSummary) });
    },
  );

  add(
    {
      method: 'get',
      path: '/v1/boxes/{box}/exports/{export}',
      scope: 'files',
      summary: 'Read an export, after its end with its files',
      tag,
      params,
      responses: { 200: { description: 'The export.', schema: exportSchema } },
    },
    async ({ c, tenant, params }) => c.json(toExport(await exports.find({ tenant, box: params.box }, params.export))),
  );

  add(
    {
      method: 'delete',
      path: '/v1/boxes/{box}/exports/{export}',
      scope: 'files',
      summary: 'Cancel an export',
      tag,
      params,
      responses: { 204: { description: 'The export has ended, or ends now.' } },
    },
    async ({ c, tenant, params }) => {
      await exports.cancel({ tenant, box: params.box }, params.export);
      return c.body(null, 204);
    },
  );
};

const respond = (c: Context<Env>, row: ExportRow): Response => {
  c.header('Location', locationOf({ kind: 'export', box: row.boxId, id: row.id }));
  return c.json(toExport(row), row.state === 'running' ? 202 : 201);
};

const toSummary = (row: ExportSummaryRow): ExportSummary => ({
  id: row.id,
  box: row.boxId,
  state: row.state,
  to: row.target,
  fileCount: row.fileCount,
  sizeBytes: row.sizeBytes,
  skipped: row.skipped,
  failure: row.failure,
  createdAt: row.createdAt.toISOString(),
  endedAt: row.endedAt?.toISOString() ?? null,
});

const toExport = (row: ExportRow): Export => ({ ...toSummary(row), files: row.files });
