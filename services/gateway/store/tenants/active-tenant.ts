import { type SQL, sql } from 'drizzle-orm';
import { CodeBoxError } from '#contract';
import { tenants } from '../schema.ts';

/**
 * An SQL expression: the id of a tenant, or null when it is not active. A key is accepted for a second after its tenant is suspended or
 * deleted; this expression waits for a concurrent change of the tenant and prevents another until the statement ends.
 */
export const activeTenant = (id: unknown): SQL =>
  sql`(select ${tenants.id} from ${tenants} where ${tenants.id} = ${id} and ${tenants.state} = 'active' for key share)`;

/** The error of an operation that needs an active tenant. */
export const notActive = (): CodeBoxError =>
  new CodeBoxError('forbidden', 'The tenant of this key is suspended or deleted.');
