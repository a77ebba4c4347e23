import {
  type ApiKey,
  type AuditQuery,
  apiKeySchema,
  auditPageSchema,
  type CreateKey,
  type CreateTenant,
  type KeyQuery,
  keyPageSchema,
  type NewApiKey,
  newApiKeySchema,
  type RotateKey,
  type Tenant,
  type TenantQuery,
  tenantPageSchema,
  tenantSchema,
  type UpdateTenant,
} from '../tenants/admin.ts';
import { type UsageQuery, usagePageSchema } from '../tenants/usage.ts';
import { type CallOptions, pathOf, type Transport } from './transport.ts';

type Query<T> = Partial<Omit<T, 'cursor'>>;

/** Usage of the caller's own tenant, by day and user, newest day first. */
export const createUsage = (transport: Transport) => ({
  list: (query: Query<UsageQuery> = {}, options?: CallOptions) =>
    transport.items(usagePageSchema, { path: pathOf('usage'), query, options }),
});

const createTenants = (transport: Transport) => {
  const at = (...parts: string[]) => pathOf('admin', 'tenants', ...parts);
  return {
    create: (body: CreateTenant, options?: CallOptions): Promise<Tenant> =>
      transport.json(tenantSchema, { method: 'POST', path: at(), json: body, creates: true, options }),

    read: (tenant: string, options?: CallOptions): Promise<Tenant> =>
      transport.json(tenantSchema, { path: at(tenant), options }),

    /** Newest first; deleted tenants only when `state` asks for them. */
    list: (query: Query<TenantQuery> = {}, options?: CallOptions) =>
      transport.items(tenantPageSchema, { path: at(), query, options }),

    /** Quotas that are left out stay unchanged; `state` suspends or reactivates the tenant. */
    update: (tenant: string, body: UpdateTenant, options?: CallOptions): Promise<Tenant> =>
      transport.json(tenantSchema, { method: 'PATCH', path: at(tenant), json: body, options }),

    /** Deletes the tenant for good, with its keys and its boxes. */
    delete: (tenant: string, options?: CallOptions): Promise<void> =>
      transport.done({ method: 'DELETE', path: at(tenant), options }),

    usage: (tenant: string, query: Query<UsageQuery> = {}, options?: CallOptions) =>
      transport.items(usagePageSchema, { path: at(tenant, 'usage'), query, options }),
  };
};

const createKeys = (transport: Transport) => {
  const at = (...parts: string[]) => pathOf('admin', 'keys', ...parts);
  return {
    /**
     * Creates a key, which only this response contains. The client does not repeat the request by itself, as the
     * response to a repeated request would lack the key.
     */
    create: (body: CreateKey, options?: CallOptions): Promise<NewApiKey> =>
      transport.json(newApiKeySchema, { method: 'POST', path: at(), json: body, options }),

    read: (key: string, options?: CallOptions): Promise<ApiKey> =>
      transport.json(apiKeySchema, { path: at(key), options }),

    list: (query: Query<KeyQuery> = {}, options?: CallOptions) =>
      transport.items(keyPageSchema, { path: at(), query, options }),

    /** Creates a key that replaces this one. The old key stays valid for the overlap, one hour by default. */
    rotate: (key: string, body: RotateKey = {}, options?: CallOptions): Promise<NewApiKey> =>
      transport.json(newApiKeySchema, { method: 'POST', path: at(key, 'rotate'), json: body, options }),

    /** Revokes the key: no gateway accepts it after one second. */
    revoke: (key: string, options?: CallOptions): Promise<void> =>
      transport.done({ method: 'DELETE', path: at(key), options }),
  };
};

/** The operator's API; it needs a client with the admin key. */
export const createAdmin = (transport: Transport) => ({
  tenants: createTenants(transport),
  keys: createKeys(transport),
  /** Lists the changes of tenants and keys, and who made them, newest first. */
  audit: (query: Query<AuditQuery> = {}, options?: CallOptions) =>
    transport.items(auditPageSchema, { path: pathOf('admin', 'audit'), query, options }),
});
