import type { Context } from 'hono';
import { CodeBoxError, type Quotas } from '#contract';
import type { ApiKeyStore } from '../../../store/tenants/api-keys.ts';
import type { AuditStore, ChangedBy } from '../../../store/tenants/audit.ts';
import type { TenantStore } from '../../../store/tenants/tenants.ts';
import type { Env } from '../../env.ts';

/** The stores and settings of the operator's routes. */
export interface AdminParts {
  tenants: TenantStore;
  apiKeys: ApiKeyStore;
  audit: AuditStore;
  /** The quotas of new tenants, unless the request sets others. */
  defaultQuotas: Partial<Quotas>;
}

/** Returns the author of a change by the operator, with its request, for the audit log. */
export const byAdmin = (c: Context<Env>): ChangedBy => ({ actor: 'admin', requestId: c.get('requestId') });

/** The error for a tenant that does not exist. */
export const noTenant = () => new CodeBoxError('not_found', 'There is no such tenant.');
