import type { OperationTexts } from '../../../http/endpoints/operation-texts.ts';
import { at, ids, pageOf } from './examples.ts';

const quotas = {
  boxes: 10,
  concurrentExecutions: 4,
  cpuSecondsPerDay: 36_000,
  storageMb: 10_240,
  requestsPerMinute: 600,
  templates: 10,
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

/** Descriptions and examples of the operations of callers, and of the operator. */
export const tenantTexts: OperationTexts = {
  'GET /v1/caller': {
    description: 'Works with any valid key, whatever its scopes.',
    response: { tenant: ids.tenant, key: ids.key, scopes: apiKey.scopes },
  },
  'GET /v1/usage': {
    description: 'Returns the usage of the tenant of the key. Runs are counted when they end.',
    response: pageOf(usage),
  },
  'POST /v1/admin/tenants': {
    description: 'A tenant sees only its own boxes. A null quota means no limit.',
    request: { name: 'Analytical Engines', quotas: { boxes: 10, requestsPerMinute: 600 } },
    response: tenant,
  },
  'GET /v1/admin/tenants': {
    description: 'Returns a page of tenants with their quotas.',
    response: pageOf(tenant),
  },
  'GET /v1/admin/tenants/{tenant}': {
    description: 'Returns the name, the state and the quotas of the tenant.',
    response: tenant,
  },
  'PATCH /v1/admin/tenants/{tenant}': {
    description:
      'Changes only the fields that are given. After `"state": "suspended"`, its keys are refused within a second.',
    request: { state: 'suspended', quotas: { boxes: 20 } },
    response: { ...tenant, state: 'suspended', quotas: { ...quotas, boxes: 20 } },
  },
  'DELETE /v1/admin/tenants/{tenant}': {
    description: 'This cannot be undone. Suspend a tenant instead if it may return.',
  },
  'GET /v1/admin/tenants/{tenant}/usage': {
    description: 'Returns what the tenant sees at `/v1/usage`.',
    response: pageOf(usage),
  },
  'POST /v1/admin/keys': {
    description:
      '`key` is shown only in this response; only its hash is stored. Without `scopes` the key allows everything but administration.',
    request: { tenant: ids.tenant, name: 'backend', scopes: ['boxes:read', 'run'], expiresInSeconds: 2_592_000 },
    response: newKey,
  },
  'GET /v1/admin/keys': {
    description: 'The list has no key texts: only their hashes are stored.',
    response: pageOf(apiKey),
  },
  'GET /v1/admin/keys/{key}': {
    description: 'The id is the part of the key that follows `cbx_`.',
    response: apiKey,
  },
  'DELETE /v1/admin/keys/{key}': {
    description: 'Streams and sockets that were opened with the key are closed too.',
  },
  'POST /v1/admin/keys/{key}/rotate': {
    description: 'The new key has the same tenant, name and scopes. The old key expires after `overlapSeconds`.',
    request: { overlapSeconds: 3600 },
    response: newKey,
  },
  'GET /v1/admin/audit': {
    description: 'Lists each change made by the operator or by the service itself, with the id of its request.',
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
