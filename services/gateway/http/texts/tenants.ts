import type { OperationTexts } from '../../../http/operation-texts.ts';
import { at, ids, pageOf } from './examples.ts';

const quotas = {
  boxes: 10,
  concurrentExecutions: 4,
  cpuSecondsPerDay: 36_000,
  storageMb: 10_240,
  requestsPerMinute: 600,
};
const tenant = { id: ids.tenant, name: 'Analytical Engines', state: 'active', quotas, createdAt: at };
const apiKey = {
  id: ids.key,
  tenant: ids.tenant,
  name: 'backend',
  scopes: ['boxes:read', 'boxes:write', 'run', 'files', 'usage'],
  state: 'active',
  createdAt: at,
  expiresAt: null,
  revokedAt: null,
};
const newKey = { ...apiKey, key: `cbx_${ids.key}_…` };
const usage = {
  day: '2026-01-31',
  user: 'ada',
  boxes: 2,
  boxSeconds: 1800,
  executions: 12,
  wallMs: 4200,
  cpuMs: 3900,
  peakMemoryBytes: 314_572_800,
};

/** Of callers, and of what the operator does. */
export const tenantTexts: OperationTexts = {
  'GET /v1/caller': {
    description: 'For any valid key, whatever its scopes are.',
    response: { tenant: ids.tenant, key: ids.key, scopes: apiKey.scopes },
  },
  'GET /v1/usage': {
    description: 'Of the tenant of the key. What still runs is counted when it ends.',
    response: pageOf(usage),
  },
  'POST /v1/admin/tenants': {
    description: 'A tenant sees its own boxes only. A quota that is null sets no bound.',
    request: { name: 'Analytical Engines', quotas: { boxes: 10, requestsPerMinute: 600 } },
    response: tenant,
  },
  'GET /v1/admin/tenants': {
    description: 'A page of tenants with their quotas.',
    response: pageOf(tenant),
  },
  'GET /v1/admin/tenants/{tenant}': {
    description: 'Its name, its state and its quotas.',
    response: tenant,
  },
  'PATCH /v1/admin/tenants/{tenant}': {
    description: 'Changes what is named. `"state": "suspended"` refuses its keys from the next second on.',
    request: { state: 'suspended', quotas: { boxes: 20 } },
    response: { ...tenant, state: 'suspended', quotas: { ...quotas, boxes: 20 } },
  },
  'DELETE /v1/admin/tenants/{tenant}': {
    description: 'This cannot be undone. Suspend it where it may come back.',
  },
  'GET /v1/admin/tenants/{tenant}/usage': {
    description: 'The same as the tenant sees at `/v1/usage`.',
    response: pageOf(usage),
  },
  'POST /v1/admin/keys': {
    description:
      '`key` is shown this once; only its hash is kept. Without `scopes` it may do everything but administer.',
    request: { tenant: ids.tenant, name: 'backend', scopes: ['boxes:read', 'run'], expiresInSeconds: 2_592_000 },
    response: newKey,
  },
  'GET /v1/admin/keys': {
    description: 'Without the keys themselves, which nobody has kept.',
    response: pageOf(apiKey),
  },
  'GET /v1/admin/keys/{key}': {
    description: 'By its id, which is the part of the key behind `cbx_`.',
    response: apiKey,
  },
  'DELETE /v1/admin/keys/{key}': {
    description: 'Open streams and sockets that it has let in are closed too.',
  },
  'POST /v1/admin/keys/{key}/rotate': {
    description: 'The new key has the same tenant, name and scopes. The old one ends after `overlapSeconds`.',
    request: { overlapSeconds: 3600 },
    response: newKey,
  },
  'GET /v1/admin/audit': {
    description: 'Each change by the operator or by the service itself, with its request.',
    response: pageOf({
      id: '42',
      at,
      actor: 'admin',
      action: 'tenant.updated',
      tenant: ids.tenant,
      target: ids.tenant,
      requestId: '5a8e0c3e-7a57-4d0b-9f4f-3a1de3a8b0c7',
      details: { state: 'suspended' },
    }),
  },
};
