import { type SQL, sql } from 'drizzle-orm';
import { CodeBoxError } from '#contract';
import { tenants } from '../schema.ts';

/**
 * In a statement: the id of a tenant, or null when it is not active. A key counts for a second after its tenant is suspended or
 * gone; this waits for a change of the tenant that is under way, and keeps it from changing until the statement is done.
 */
export const activeTenant = (id: unknown): SQL =>
  sql`(select ${tenants.id} from ${tenants} where ${tenants.id} = ${id} and ${tenants.state} = 'active' for key share)`;

/** The refusal of what only an active tenant may do. */
export const notActive = (): CodeBoxError =>
  new CodeBoxError('forbidden', 'The tenant of this key is suspended or deleted.');
