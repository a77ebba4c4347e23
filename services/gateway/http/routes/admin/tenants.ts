import { z } from 'zod';
import {
  createTenantSchema,
  type Quotas,
  type Tenant,
  tenantPageSchema,
  tenantQuerySchema,
  tenantSchema,
  updateTenantSchema,
  usagePageSchema,
  usageQuerySchema,
} from '#contract';
import { newId } from '../../../../postgres/id.ts';
import type { TenantRow } from '../../../store/tenants/tenants.ts';
import type { Endpoints } from '../../endpoint.ts';
import { locationOf } from '../../idempotency/location.ts';
import { toUsagePage, type UsageParts } from '../usage.ts';
import { type AdminParts, byAdmin, noTenant } from './parts.ts';

const params = z.strictObject({ tenant: z.string().max(64) });
const tag = 'Admin';

/** `/v1/admin/tenants`. */
export const addTenantRoutes = ({ add }: Endpoints, parts: { admin: AdminParts } & UsageParts): void => {
  const find = async (id: string): Promise<TenantRow> => {
    const row = await parts.admin.tenants.find(id);
    if (!row) throw noTenant();
    return row;
  };

  add(
    {
      method: 'post',
      path: '/v1/admin/tenants',
      scope: 'admin',
      summary: 'Create a tenant',
      tag,
      body: createTenantSchema,
      idempotent: {
        replay: async ({ c }, { id }) => c.json(toTenant(await find(id)), 201),
      },
      responses: { 201: { description: 'The tenant.', schema: tenantSchema } },
    },
    async ({ c, body }) => {
      const id = newId('ten');
      const reference = { kind: 'tenant', id } as const;
      const quotas = { ...parts.admin.defaultQuotas, ...(body.quotas as Partial<Quotas> | undefined) };
      await c.get('progress')?.mayStart(reference);
      await parts.admin.tenants.create({ id, name: body.name, quotas }, byAdmin(c));
      await c.get('progress')?.hasStarted();
      c.header('Location', locationOf(reference));
      return c.json(toTenant(await find(id)), 201);
    },
  );

  add(
    {
      method: 'get',
      path: '/v1/admin/tenants',
      scope: 'admin',
      summary: 'List tenants, the newest first; deleted ones only when filtered by that state',
      tag,
      query: tenantQuerySchema,
      responses: { 200: { description: 'A page of tenants.', schema: tenantPageSchema } },
    },
    async ({ c, query }) => {
      const { items, nextCursor } = await parts.admin.tenants.list(query);
      return c.json({ items: items.map(toTenant), nextCursor });
    },
  );

  add(
    {
      method: 'get',
      path: '/v1/admin/tenants/{tenant}',
      scope: 'admin',
      summary: 'Read a tenant',
      tag,
      params,
      responses: { 200: { description: 'The tenant.', schema: tenantSchema } },
    },
    async ({ c, params: { tenant } }) => c.json(toTenant(await find(tenant))),
  );

  add(
    {
      method: 'patch',
      path: '/v1/admin/tenants/{tenant}',
      scope: 'admin',
      summary: 'Change the name and the quotas of a tenant, suspend or reactivate it',
      tag,
      params,
      body: updateTenantSchema,
      responses: {
        200: {
          description: 'The tenant. The change takes effect in all gateways within a second.',
          schema: tenantSchema,
        },
      },
    },
    async ({ c, params: { tenant }, body }) => {
      const row = await parts.admin.tenants.update(tenant, body, byAdmin(c));
      if (!row) throw noTenant();
      return c.json(toTenant(row));
    },
  );

  add(
    {
      method: 'delete',
      path: '/v1/admin/tenants/{tenant}',
      scope: 'admin',
      summary: 'Delete a tenant permanently, with its keys and its boxes; its usage stays on record',
      tag,
      params,
      responses: { 204: { description: 'Its keys are revoked, and its boxes are being ended.' } },
    },
    async ({ c, params: { tenant } }) => {
      if (!(await parts.admin.tenants.delete(tenant, byAdmin(c)))) throw noTenant();
      return c.body(null, 204);
    },
  );

  add(
    {
      method: 'get',
      path: '/v1/admin/tenants/{tenant}/usage',
      scope: 'admin',
      summary: 'Read the usage of a tenant, by day and user',
      tag,
      params,
      query: usageQuerySchema,
      responses: { 200: { description: 'A page of days.', schema: usagePageSchema } },
    },
    async ({ c, params: { tenant }, query }) => {
      await find(tenant);
      return c.json(toUsagePage(await parts.usage.list(tenant, query)));
    },
  );
};

const toTenant = ({ id, name, state, quotas, createdAt }: TenantRow): Tenant => ({
  id,
  name,
  state,
  quotas,
  createdAt: createdAt.toISOString(),
});
