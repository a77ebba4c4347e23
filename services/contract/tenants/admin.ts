import { z } from 'zod';
import { pageQuerySchema, pageSchema } from '../values/page.ts';
import { plainText } from '../values/text.ts';

/** The permissions that a key can have. */
export const keyScopes = ['boxes:read', 'boxes:write', 'run', 'files', 'usage'] as const;

export const keyScopeSchema = z.enum(keyScopes).meta({
  id: 'KeyScope',
  description:
    '`boxes:read`: read boxes, templates, volumes, runs and their outputs. `boxes:write`: create, change and delete boxes and volumes; creating one with packages or files needs `run` or `files` as well. `run`: run code and ' +
    'commands, install packages, connect to terminals and ports, `POST /v1/run`. `files`: read and write files. `usage`: read usage.',
});

export type KeyScope = z.infer<typeof keyScopeSchema>;

const quota = (max: number, description: string) => z.int().min(0).max(max).nullable().meta({ description });

const quotaFields = {
  boxes: quota(1_000_000, 'Boxes that have not ended.'),
  concurrentExecutions: quota(
    1_000_000,
    'Executions that run or wait in a queue; commands and installers do not count.',
  ),
  cpuSecondsPerDay: quota(
    2_000_000_000,
    'CPU time of all boxes in a day (UTC). Once it is spent, everything that runs in them is ended and nothing new is run.',
  ),
  storageMb: quota(
    2_000_000_000,
    'Sum of the disk limits of all boxes that have not ended, and of the sizes of all volumes.',
  ),
  requestsPerMinute: quota(
    100_000_000,
    'Requests to the API and to ports of boxes, and each operation sent over the WebSocket of executions. Any other WebSocket counts once, when it is opened.',
  ),
  templates: quota(1000, 'Templates that the tenant has built; 0 forbids it to. Without this quota there may be 100.'),
};

export const quotaNames = Object.keys(quotaFields) as (keyof typeof quotaFields)[];

/** The limits of a tenant; null means no limit. */
export const quotasSchema = z.strictObject(quotaFields).meta({ id: 'Quotas' });

export type Quotas = z.infer<typeof quotasSchema>;

const name = plainText().min(1).max(128);

export const tenantSchema = z
  .object({
    id: z.string(),
    name: z.string(),
    state: z.enum(['active', 'suspended', 'deleted']),
    quotas: quotasSchema,
    createdAt: z.iso.datetime(),
  })
  .meta({ id: 'Tenant' });

export type Tenant = z.infer<typeof tenantSchema>;

export const createTenantSchema = z
  .strictObject({
    name,
    quotas: quotasSchema
      .partial()
      .optional()
      .meta({ description: 'Quotas that are left out take the default of the deployment.' }),
  })
  .meta({ id: 'CreateTenant' });

export type CreateTenant = z.infer<typeof createTenantSchema>;

export const updateTenantSchema = z
  .strictObject({
    name: name.optional(),
    state: z.enum(['active', 'suspended']).optional().meta({
      description: 'The keys of a suspended tenant are refused; its boxes stay until they become idle.',
    }),
    quotas: quotasSchema.partial().optional().meta({ description: 'Quotas that are left out stay unchanged.' }),
  })
  .meta({ id: 'UpdateTenant' });

export type UpdateTenant = z.infer<typeof updateTenantSchema>;

export const tenantPageSchema = pageSchema('TenantPage', tenantSchema);

export const tenantQuerySchema = pageQuerySchema.extend({
  state: z.enum(['active', 'suspended', 'deleted']).optional(),
});

export type TenantQuery = z.infer<typeof tenantQuerySchema>;

export const apiKeySchema = z
  .object({
    id: z.string(),
    tenant: z.string(),
    name: z.string(),
    scopes: z.array(keyScopeSchema),
    state: z.enum(['active', 'expired', 'revoked']),
    createdAt: z.iso.datetime(),
    expiresAt: z.iso.datetime().nullable(),
    revokedAt: z.iso.datetime().nullable(),
  })
  .meta({ id: 'ApiKey' });

export type ApiKey = z.infer<typeof apiKeySchema>;

export const newApiKeySchema = apiKeySchema
  .extend({
    key: z.string().meta({ description: 'The key itself. It is returned only once: the gateway keeps only its hash.' }),
  })
  .meta({ id: 'NewApiKey' });

export type NewApiKey = z.infer<typeof newApiKeySchema>;

/** Ten years. */
const maxKeySeconds = 315_360_000;

export const createKeySchema = z
  .strictObject({
    tenant: z.string().max(64),
    name,
    scopes: z
      .array(keyScopeSchema)
      .min(1)
      .max(keyScopes.length)
      .optional()
      .meta({ description: 'Default: all of them.' }),
    expiresInSeconds: z
      .int()
      .min(1)
      .max(maxKeySeconds)
      .optional()
      .meta({ description: 'Default: the key does not expire.' }),
  })
  .meta({ id: 'CreateApiKey' });

export type CreateKey = z.infer<typeof createKeySchema>;

export const rotateKeySchema = z
  .strictObject({
    overlapSeconds: z
      .int()
      .min(0)
      .max(2_592_000)
      .default(3600)
      .meta({ description: 'How long the old key stays valid.' }),
    expiresInSeconds: createKeySchema.shape.expiresInSeconds,
  })
  .meta({ id: 'RotateApiKey' });

export type RotateKey = z.input<typeof rotateKeySchema>;

export const keyPageSchema = pageSchema('ApiKeyPage', apiKeySchema);

export const keyQuerySchema = pageQuerySchema.extend({ tenant: plainText().max(64).optional() });

export type KeyQuery = z.infer<typeof keyQuerySchema>;

export const auditEntrySchema = z
  .object({
    id: z.string(),
    at: z.iso.datetime(),
    actor: z.string().meta({ description: '`admin`, or `gateway` for what the gateway did by itself.' }),
    action: z.string().meta({ description: 'For example `tenant.create` or `key.revoke`.' }),
    tenant: z.string().nullable(),
    target: z.string().meta({ description: 'The id of the object that was changed.' }),
    requestId: z.string().nullable(),
    details: z.record(z.string(), z.unknown()).meta({ description: 'The values that were set; never a key.' }),
  })
  .meta({ id: 'AuditEntry' });

export type AuditEntry = z.infer<typeof auditEntrySchema>;

export const auditPageSchema = pageSchema('AuditPage', auditEntrySchema);

export const auditQuerySchema = pageQuerySchema.extend({ tenant: plainText().max(64).optional() });

export type AuditQuery = z.infer<typeof auditQuerySchema>;
