import type { Context } from 'hono';
import { CodeBoxError, type Quotas } from '#contract';
import type { ApiKeyStore } from '../../../store/tenants/api-keys.ts';
import type { AuditStore, ChangedBy } from '../../../store/tenants/audit.ts';
import type { TenantStore } from '../../../store/tenants/tenants.ts';
import type { Env } from '../../env.ts';

/** What the operator's routes call. */
export interface AdminParts {
  tenants: TenantStore;
  apiKeys: ApiKeyStore;
  audit: AuditStore;
  /** Of new tenants, where nothing else is said. */
  defaultQuotas: Partial<Quotas>;
}

/** The operator, by this request, for the audit log. */
export const byAdmin = (c: Context<Env>): ChangedBy => ({ actor: 'admin', requestId: c.get('requestId') });

/** The error for a tenant that does not exist. */
export const noTenant = () => new CodeBoxError('not_found', 'There is no such tenant.');
