import { eq } from 'drizzle-orm';
import type { Database } from './database.ts';
import { tenants } from './schema.ts';

/** Locks a tenant until the end of the transaction, so that concurrent requests of the tenant count what it has one after the other. */
export const lockTenant = async (tx: Pick<Database, 'select'>, id: string): Promise<void> => {
  await tx.select({ id: tenants.id }).from(tenants).where(eq(tenants.id, id)).for('no key update');
};
