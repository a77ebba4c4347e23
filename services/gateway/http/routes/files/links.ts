import type { Context } from 'hono';
import { z } from 'zod';
import {
  createdLinkSchema,
  createLinkSchema,
  fileEntrySchema,
  hasCode,
  type Link,
  linkPageSchema,
  pageQuerySchema,
} from '#contract';
import { downloadHeaders } from '../../../../http/bodies/downloads.ts';
import { openUpload } from '../../../../http/bodies/uploads.ts';
import { NoSuchRange } from '../../../boxes/reach/files.ts';
import type { Links } from '../../../boxes/reach/links.ts';
import type { LinkRow } from '../../../store/box/links.ts';
import { sendFile, setFileSize } from '../../downloads.ts';
import type { Endpoints } from '../../endpoint.ts';
import type { Env } from '../../env.ts';
import { boxParams } from '../boxes/boxes.ts';
import { conditionsOf } from './conditions.ts';

const params = boxParams.extend({ link: z.string().max(64) });
const tokenParams = z.object({ token: z.string().max(64) });
const tag = 'Links';
const binary = z.string().meta({ format: 'binary' });

/** `/v1/boxes/{box}/links`: links to files, which need no key. */
export const addLinkRoutes = ({ add }: Endpoints, links: Links): void => {
  add(
    {
      method: 'post',
      path: '/v1/boxes/{box}/links',
      scope: 'files',
      summary: 'Create a link to read or write one file without a key, once or until it expires',
      tag,
      params: boxParams,
      body: createLinkSchema,
      responses: { 201: { description: 'The link. Its URL is only in this response.', schema: createdLinkSchema } },
    },
    async ({ c, tenant, params, body }) => {
      const { link, token } = await links.create({ tenantId: tenant, keyId: c.get('keyId') }, params.box, body);
      return c.json({ ...toLink(link), url: `/v1/links/${token}` }, 201);
    },
  );

  add(
    {
      method: 'get',
      path: '/v1/boxes/{box}/links',
      scope: 'files',
      summary: 'List links, the newest first',
      tag,
      params: boxParams,
      query: pageQuerySchema,
      responses: { 200: { description: 'A page of links, without their URLs.', schema: linkPageSchema } },
    },
    async ({ c, tenant, params, query }) => {
      const page = await links.list({ tenant, box: params.box }, query);
      return c.json({ ...page, items: page.items.map(toLink) });
    },
  );

  add(
    {
      method: 'delete',
      path: '/v1/boxes/{box}/links/{link}',
      scope: 'files',
      summary: 'Revoke a link',
      tag,
      params,
      responses: { 204: { description: 'The link is no longer valid.' } },
    },
    async ({ c, tenant, params }) => {
      await links.revoke({ tenant, box: params.box }, params.link);
      return c.body(null, 204);
    },
  );
};

/** `/v1/links/{token}`: a file, for whoever has its link. */
export const addLinkedFileRoutes = ({ add }: Endpoints, links: Links): void => {
  const read = async ({ c, params }: { c: Context<Env>; params: { token: string } }) => {
    const conditions = { ...conditionsOf(c), ifRange: c.req.header('if-range') };
    const look = () =>
      c.req.method === 'HEAD'
        ? links.stat(params.token, { conditions })
        : links.open(params.token, { conditions, range: c.req.header('range') });
    const { link, found, body } = await look().catch((error: unknown) => {
      if (error instanceof NoSuchRange) setFileSize(c, error);
      if (hasCode(error, 'method_not_allowed')) c.header('Allow', 'PUT');
      throw error;
    });
    const name = link.download ?? (link.path.split('/').at(-1) || 'data');
    const headers = { ...downloadHeaders(name), ...privateHeaders };
    return sendFile(c, found, headers, body);
  };

  // The router sends HEAD to the route of GET.
  for (const method of ['get', 'head'] as const)
    add(
      {
        method,
        path: '/v1/links/{token}',
        scope: 'files',
        isCapability: true,
        summary:
          method === 'get' ? 'Download the file of a link (ranges, ETag)' : 'Read the size of the file of a link',
        tag,
        params: tokenParams,
        responses: {
          200: { description: 'The content of the file.', types: { 'application/octet-stream': binary } },
          206: { description: 'The requested range.', types: { 'application/octet-stream': binary } },
          304: { description: 'The file has not changed.' },
        },
      },
      read,
    );

  add(
    {
      method: 'put',
      path: '/v1/links/{token}',
      scope: 'files',
      isCapability: true,
      summary: 'Upload the file of a link, as a whole or not at all',
      tag,
      params: tokenParams,
      rawBody: { 'application/octet-stream': binary },
      responses: {
        201: { description: 'The file was created.', schema: fileEntrySchema },
        200: { description: 'The file was replaced.', schema: fileEntrySchema },
      },
    },
    async ({ c, params }) => {
      using upload = openUpload(c);
      const length = c.req.header('content-length');
      const options = {
        conditions: conditionsOf(c),
        sizeBytes: length === undefined ? undefined : Number(length),
        signal: upload.signal,
      };
      const { entry, isNew } = await links.put(params.token, upload.body, options).catch((error: unknown) => {
        if (hasCode(error, 'method_not_allowed')) c.header('Allow', 'GET, HEAD');
        throw error;
      });
      if (entry.etag) c.header('ETag', entry.etag);
      return c.json(entry, isNew ? 201 : 200);
    },
  );
};

/** The URL is a secret: no cache keeps the file under it, and no page that the file leads to learns it. */
const privateHeaders = { 'cache-control': 'private, no-store', 'referrer-policy': 'no-referrer' };

const toLink = (row: LinkRow): Link => ({
  id: row.id,
  box: row.boxId,
  path: row.path,
  method: row.method,
  once: row.once,
  maxBytes: row.maxBytes,
  download: row.download,
  createdAt: row.createdAt.toISOString(),
  expiresAt: row.expiresAt.toISOString(),
  usedAt: row.usedAt?.toISOString() ?? null,
});
