import { z } from 'zod';
import {
  type ApiKey,
  apiKeySchema,
  CodeBoxError,
  createKeySchema,
  keyPageSchema,
  keyQuerySchema,
  keyScopes,
  newApiKeySchema,
  rotateKeySchema,
} from '#contract';
import type { Reference } from '../../../store/reference.ts';
import type { ApiKeyRow } from '../../../store/tenants/api-keys.ts';
import { makeKey } from '../../admission/auth.ts';
import type { Endpoints } from '../../endpoint.ts';
import { locationOf } from '../../idempotency/location.ts';
import { type AdminParts, byAdmin, noTenant } from './parts.ts';

const params = z.strictObject({ key: z.string().max(64) });
const tag = 'Admin';
const created =
  'The new key. Its text is only in this response: a repeated request with the same Idempotency-Key gets the rest without it.';

/** `/v1/admin/keys`. */
export const addKeyRoutes = ({ add }: Endpoints, parts: { admin: AdminParts }): void => {
  const find = async (id: string): Promise<ApiKeyRow> => {
    const row = await parts.admin.apiKeys.find(id);
    if (!row) throw noSuchKey();
    return row;
  };
  /** The text of the key is not stored, so a repeated request gets everything else. */
  const replay = async ({ c }: { c: { json: (body: ApiKey) => Response } }, { id }: Reference) =>
    c.json(toApiKey(await find(id)));

  add(
    {
      method: 'post',
      path: '/v1/admin/keys',
      scope: 'admin',
      summary: 'Create an API key of a tenant',
      tag,
      body: createKeySchema,
      idempotent: { replay },
      responses: { 201: { description: created, schema: newApiKeySchema } },
    },
    async ({ c, body }) => {
      const { key, id, hash } = makeKey();
      const { tenant: tenantId, name, scopes = null, expiresInSeconds: lifeSeconds = null } = body;
      const reference = { kind: 'key', id } as const;
      await c.get('progress')?.mayStart(reference);
      const row = await parts.admin.apiKeys.create({ id, hash, tenantId, name, scopes, lifeSeconds }, byAdmin(c));
      if (!row) throw noTenant();
      await c.get('progress')?.hasStarted();
      c.header('Location', locationOf(reference));
      return c.json({ ...toApiKey(row), key }, 201);
    },
  );

  add(
    {
      method: 'get',
      path: '/v1/admin/keys',
      scope: 'admin',
      summary: 'List keys, the newest first, including revoked and expired ones',
      tag,
      query: keyQuerySchema,
      responses: { 200: { description: 'A page of keys.', schema: keyPageSchema } },
    },
    async ({ c, query }) => {
      const { items, nextCursor } = await parts.admin.apiKeys.list(query);
      return c.json({ items: items.map(toApiKey), nextCursor });
    },
  );

  add(
    {
      method: 'get',
      path: '/v1/admin/keys/{key}',
      scope: 'admin',
      summary: 'Read a key, without its text',
      tag,
      params,
      responses: { 200: { description: 'The key, without its text.', schema: apiKeySchema } },
    },
    async ({ c, params: { key } }) => c.json(toApiKey(await find(key))),
  );

  add(
    {
      method: 'post',
      path: '/v1/admin/keys/{key}/rotate',
      scope: 'admin',
      summary: 'Replace a key by a new one; the old one stays valid for an overlap',
      tag,
      params,
      body: rotateKeySchema,
      idempotent: { replay },
      responses: { 201: { description: created, schema: newApiKeySchema } },
    },
    async ({ c, params: { key: oldId }, body }) => {
      const { key, id, hash } = makeKey();
      const { expiresInSeconds: lifeSeconds, overlapSeconds } = body;
      const reference = { kind: 'key', id } as const;
      await c.get('progress')?.mayStart(reference);
      const row = await parts.admin.apiKeys.rotate(oldId, { id, hash, lifeSeconds, overlapSeconds }, byAdmin(c));
      if (!row) throw noSuchKey();
      await c.get('progress')?.hasStarted();
      c.header('Location', locationOf(reference));
      return c.json({ ...toApiKey(row), key }, 201);
    },
  );

  add(
    {
      method: 'delete',
      path: '/v1/admin/keys/{key}',
      scope: 'admin',
      summary: 'Revoke a key: all gateways refuse it within a second',
      tag,
      params,
      responses: { 204: { description: 'The key is revoked.' } },
    },
    async ({ c, params: { key } }) => {
      if (!(await parts.admin.apiKeys.revoke(key, byAdmin(c)))) throw noSuchKey();
      return c.body(null, 204);
    },
  );
};

const noSuchKey = () => new CodeBoxError('not_found', 'There is no such key.');

const toApiKey = (row: ApiKeyRow): ApiKey => ({
  id: row.id,
  tenant: row.tenantId,
  name: row.name,
  scopes: row.scopes ?? [...keyScopes],
  state: row.revokedAt ? 'revoked' : row.isExpired ? 'expired' : 'active',
  createdAt: row.createdAt.toISOString(),
  expiresAt: row.expiresAt?.toISOString() ?? null,
  revokedAt: row.revokedAt?.toISOString() ?? null,
});
