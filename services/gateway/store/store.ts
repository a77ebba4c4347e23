import { createAllocationStore } from './allocation.ts';
import { createApiKeyStore } from './api-keys.ts';
import { createAuditStore } from './audit.ts';
import { createBoxStore } from './boxes.ts';
import { connectDatabase } from './database.ts';
import { createExecutionStore } from './executions.ts';
import { createGatewayStore } from './gateways.ts';
import { createIdempotencyStore } from './idempotency.ts';
import { createInstanceStore } from './instances.ts';
import { createKeyStore } from './keys.ts';
import { createPoolStore } from './pools.ts';
import { createPortSessionStore } from './port-sessions.ts';
import { createQuotaStore } from './quotas.ts';
import { createTaskStore } from './tasks.ts';
import { createTenantStore } from './tenants.ts';
import { createTicketStore } from './tickets.ts';
import { createUsageStore } from './usage.ts';
import { createWaitingStore } from './waiting.ts';

/**
 * All SQL of the gateway, on one pool. Throws errors whose cause is `unavailable` while the database is away. What is begun
 * here belongs to `gateway`; without one, to nobody.
 */
export const openStore = async (url: string, onError: (error: Error) => void, gateway: string | null = null) => {
  const { db, connections, close } = await connectDatabase(url, onError);
  return {
    allocation: createAllocationStore(db, gateway),
    boxes: createBoxStore(db),
    executions: createExecutionStore(db, gateway),
    gateways: createGatewayStore(db),
    idempotency: createIdempotencyStore(db, gateway),
    apiKeys: createApiKeyStore(db),
    audit: createAuditStore(db),
    instances: createInstanceStore(db),
    keys: createKeyStore(db),
    pools: createPoolStore(db, gateway),
    portSessions: createPortSessionStore(db),
    quotas: createQuotaStore(db),
    tenants: createTenantStore(db),
    tasks: createTaskStore(db),
    tickets: createTicketStore(db),
    connections,
    usage: createUsageStore(db),
    waiting: createWaitingStore(db),
    close,
  };
};

export type Store = Awaited<ReturnType<typeof openStore>>;
