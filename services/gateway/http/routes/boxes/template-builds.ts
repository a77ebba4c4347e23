import { z } from 'zod';
import {
  buildEventPageSchema,
  buildEventSchema,
  buildLogQuerySchema,
  buildTemplateSchema,
  type TemplateVersion,
  templateVersionPageSchema,
  templateVersionQuerySchema,
  templateVersionSchema,
} from '#contract';
import { resumeAfter, streamEvents, streamFormat } from '../../../../http/bodies/stream.ts';
import { largeJson } from '../../../../json/json-bounds.ts';
import type { Builds } from '../../../boxes/builds/builds.ts';
import type { VersionRow } from '../../../store/templates/templates.ts';
import { requireScope } from '../../admission/admission.ts';
import type { Endpoints } from '../../endpoint.ts';

const tag = 'Templates';
const params = z.strictObject({ template: z.string().max(64) });
const versionParams = params.extend({ version: z.coerce.number().int().min(0).max(999_999_999) });

/** `PUT /v1/templates/{template}` and its versions. */
export const addTemplateBuildRoutes = ({ add }: Endpoints, builds: Builds, stopping: AbortSignal): void => {
  add(
    {
      method: 'put',
      path: '/v1/templates/{template}',
      scope: 'boxes:write',
      summary: 'Build a template of your own, or its next version',
      tag,
      params,
      body: buildTemplateSchema,
      bounds: largeJson,
      idempotent: true,
      responses: {
        202: { description: 'The version that is built in the background.', schema: templateVersionSchema },
      },
    },
    async ({ c, tenant, params: { template }, body }) => {
      requireScope(c, 'run');
      if (body.files?.length) requireScope(c, 'files');
      await c.get('progress')?.mayStart();
      const row = await builds.begin(tenant, template, body);
      c.header('Location', `/v1/templates/${template}/versions/${row.number}`);
      return c.json(toVersion(template, row), 202);
    },
  );

  add(
    {
      method: 'delete',
      path: '/v1/templates/{template}',
      scope: 'boxes:write',
      summary: 'Delete a template of your own; boxes that exist stay',
      tag,
      params,
      responses: { 204: { description: 'The template is deleted with its versions.' } },
    },
    async ({ c, tenant, params: { template } }) => {
      await builds.delete(tenant, template);
      return c.body(null, 204);
    },
  );

  add(
    {
      method: 'get',
      path: '/v1/templates/{template}/versions',
      scope: 'boxes:read',
      summary: 'List the versions of a template, the newest first',
      tag,
      params,
      query: templateVersionQuerySchema,
      responses: { 200: { description: 'A page of versions.', schema: templateVersionPageSchema } },
    },
    async ({ c, tenant, params: { template }, query }) => {
      const { items, nextCursor } = await builds.versions(tenant, template, query);
      return c.json({ items: items.map((row) => toVersion(template, row)), nextCursor });
    },
  );

  add(
    {
      method: 'get',
      path: '/v1/templates/{template}/versions/{version}',
      scope: 'boxes:read',
      summary: 'Read a version of a template',
      tag,
      params: versionParams,
      responses: { 200: { description: 'The version.', schema: templateVersionSchema } },
    },
    async ({ c, tenant, params: { template, version } }) =>
      c.json(toVersion(template, await builds.find(tenant, template, version))),
  );

  add(
    {
      method: 'get',
      path: '/v1/templates/{template}/versions/{version}/log',
      scope: 'boxes:read',
      summary: 'Read the log of a build, or stream it with Accept',
      tag,
      params: versionParams,
      query: buildLogQuerySchema,
      responses: {
        200: {
          description: 'The log so far, or a stream of it that ends with the build.',
          types: {
            'application/json': buildEventPageSchema,
            'text/event-stream': buildEventSchema,
            'application/x-ndjson': buildEventSchema,
          },
        },
      },
    },
    async ({ c, tenant, params: { template, version: number }, query }) => {
      await builds.find(tenant, template, number);
      const format = streamFormat(c);
      const from = { number, after: resumeAfter(c, query.after) };
      if (!format)
        return c.json({
          items: await Array.fromAsync(builds.log(tenant, template, { ...from, live: false })),
          nextCursor: null,
        });
      const leave = new AbortController();
      const events = builds.log(tenant, template, { ...from, live: true }, leave.signal);
      const onError = (err: unknown) =>
        c.get('log')[leave.signal.aborted ? 'debug' : 'warn']({ err }, 'a stream broke');
      return streamEvents(c, { format, events, leave, stopping, onError });
    },
  );
};

const toVersion = (template: string, row: VersionRow): TemplateVersion => ({
  template,
  version: row.number,
  state: row.state,
  cause: row.cause,
  sizeBytes: row.storageBytes,
  createdAt: row.createdAt.toISOString(),
  finishedAt: row.finishedAt?.toISOString() ?? null,
});
