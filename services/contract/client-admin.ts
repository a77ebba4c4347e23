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
} from './admin.ts';
import { type CallOptions, pathOf, type Transport } from './client-transport.ts';
import { type UsageQuery, usagePageSchema } from './usage.ts';

type Query<T> = Partial<Omit<T, 'cursor'>>;

/** What the caller's own tenant has used, by day and user, the newest day first. */
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

    /** The newest first; deleted ones only when asked for by `state`. */
    list: (query: Query<TenantQuery> = {}, options?: CallOptions) =>
      transport.items(tenantPageSchema, { path: at(), query, options }),

    /** Quotas that are left out stay as they are; `state` suspends it or lets it go on. */
    update: (tenant: string, body: UpdateTenant, options?: CallOptions): Promise<Tenant> =>
      transport.json(tenantSchema, { method: 'PATCH', path: at(tenant), json: body, options }),

    /** Ends it for good, with its keys and its boxes. */
    delete: (tenant: string, options?: CallOptions): Promise<void> =>
      transport.done({ method: 'DELETE', path: at(tenant), options }),

    usage: (tenant: string, query: Query<UsageQuery> = {}, options?: CallOptions) =>
      transport.items(usagePageSchema, { path: at(tenant, 'usage'), query, options }),
  };
};

const createKeys = (transport: Transport) => {
  const at = (...parts: string[]) => pathOf('admin', 'keys', ...parts);
  return {
    /** A new key, told only here. It is not repeated by itself: the answer to a repeated request would be without it. */
    create: (body: CreateKey, options?: CallOptions): Promise<NewApiKey> =>
      transport.json(newApiKeySchema, { method: 'POST', path: at(), json: body, options }),

    read: (key: string, options?: CallOptions): Promise<ApiKey> =>
      transport.json(apiKeySchema, { path: at(key), options }),

    list: (query: Query<KeyQuery> = {}, options?: CallOptions) =>
      transport.items(keyPageSchema, { path: at(), query, options }),

    /** A key that takes the place of this one, which stays good for the overlap: an hour unless given. */
    rotate: (key: string, body: RotateKey = {}, options?: CallOptions): Promise<NewApiKey> =>
      transport.json(newApiKeySchema, { method: 'POST', path: at(key, 'rotate'), json: body, options }),

    /** No gateway takes it a second later. */
    revoke: (key: string, options?: CallOptions): Promise<void> =>
      transport.done({ method: 'DELETE', path: at(key), options }),
  };
};

/** The operator's API: needs a client with the admin key. */
export const createAdmin = (transport: Transport) => ({
  tenants: createTenants(transport),
  keys: createKeys(transport),
  /** Who changed what of tenants and keys, the newest first. */
  audit: (query: Query<AuditQuery> = {}, options?: CallOptions) =>
    transport.items(auditPageSchema, { path: pathOf('admin', 'audit'), query, options }),
});
