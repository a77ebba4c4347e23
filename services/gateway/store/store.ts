import { createBoxStore } from './box/boxes.ts';
import { createExecutionStore } from './box/executions.ts';
import { createExportStore } from './box/exports.ts';
import { createInstanceStore } from './box/instances.ts';
import { createLinkStore } from './box/links.ts';
import { createNetworkStore } from './box/networks.ts';
import { createTaskStore } from './box/tasks.ts';
import { connectDatabase } from './database.ts';
import { createGatewayStore } from './gateways.ts';
import { createIdempotencyStore } from './idempotency.ts';
import { createAllocationStore } from './supply/allocation.ts';
import { createPoolStore } from './supply/pools.ts';
import { createTemplateLanguageStore } from './supply/template-languages.ts';
import { createWaitingStore } from './supply/waiting.ts';
import { createBuildStore } from './templates/builds.ts';
import { createTemplateStore } from './templates/templates.ts';
import { createApiKeyStore } from './tenants/api-keys.ts';
import { createAuditStore } from './tenants/audit.ts';
import { createKeyStore } from './tenants/keys.ts';
import { createPortSessionStore } from './tenants/port-sessions.ts';
import { createTenantStore } from './tenants/tenants.ts';
import { createTicketStore } from './tenants/tickets.ts';
import { createUpkeepStore } from './upkeep.ts';
import { createQuotaStore } from './usage/quotas.ts';
import { createUsageStore } from './usage/usage.ts';
import { createVolumeStore } from './volumes/volumes.ts';
import { createDeliveryStore } from './webhooks/deliveries.ts';
import { createWebhookStore } from './webhooks/webhooks.ts';

/**
 * All SQL of the gateway, on one connection pool. Calls throw errors whose cause is `unavailable` while the database is unavailable. Work
 * that is recorded here belongs to `gateway`, or to no gateway when it is null.
 */
export const openStore = async (url: string, onError: (error: Error) => void, gateway: string | null = null) => {
  const { db, connections, close } = await connectDatabase(url, onError);
  return {
    allocation: createAllocationStore(db, gateway),
    boxes: createBoxStore(db),
    builds: createBuildStore(db, gateway),
    executions: createExecutionStore(db, gateway),
    exports: createExportStore(db, gateway),
    gateways: createGatewayStore(db),
    idempotency: createIdempotencyStore(db, gateway),
    apiKeys: createApiKeyStore(db),
    audit: createAuditStore(db),
    instances: createInstanceStore(db),
    keys: createKeyStore(db),
    links: createLinkStore(db),
    networks: createNetworkStore(db),
    pools: createPoolStore(db, gateway),
    portSessions: createPortSessionStore(db),
    quotas: createQuotaStore(db),
    templateLanguages: createTemplateLanguageStore(db),
    templates: createTemplateStore(db),
    tenants: createTenantStore(db),
    tasks: createTaskStore(db),
    tickets: createTicketStore(db),
    connections,
    upkeep: createUpkeepStore(db),
    usage: createUsageStore(db),
    volumes: createVolumeStore(db, gateway),
    waiting: createWaitingStore(db),
    deliveries: createDeliveryStore(db),
    webhooks: createWebhookStore(db),
    close,
  };
};

export type Store = Awaited<ReturnType<typeof openStore>>;
