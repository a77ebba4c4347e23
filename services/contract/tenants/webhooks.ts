import { z } from 'zod';
import { fetchUrlSchema } from '../values/fetch-url.ts';
import { pageSchema } from '../values/page.ts';

/** The types of events that a webhook can get. */
export const webhookTypes = ['execution.ended', 'box.ended', 'export.ended', 'quota.exceeded'] as const;

const typesSchema = z.array(z.enum(webhookTypes)).min(1).max(webhookTypes.length).meta({
  description: 'The events that it gets.',
});

export const createWebhookSchema = z
  .strictObject({
    url: fetchUrlSchema.meta({
      description: 'Where events are posted: an https URL on the internet, or in a network that the operator allows.',
    }),
    types: typesSchema,
  })
  .meta({ id: 'CreateWebhook' });

export type CreateWebhook = z.infer<typeof createWebhookSchema>;

export const updateWebhookSchema = z
  .strictObject({
    types: typesSchema.optional(),
    enabled: z.boolean().optional().meta({ description: 'True to use a disabled webhook again.' }),
  })
  .meta({ id: 'UpdateWebhook' });

export type UpdateWebhook = z.infer<typeof updateWebhookSchema>;

export const rotateWebhookSchema = z
  .strictObject({
    graceSeconds: z.int().min(0).max(604_800).default(86_400).meta({
      description:
        'How long the former secret signs beside the new one. Default 24 hours, at most 7 days; 0 ends it at once. Older secrets that still sign end with it, or earlier.',
    }),
  })
  .meta({ id: 'RotateWebhook' });

export type RotateWebhook = z.input<typeof rotateWebhookSchema>;

export const webhookSchema = z
  .object({
    id: z.string(),
    url: z.string(),
    types: z.array(z.string()),
    enabled: z.boolean(),
    failingSince: z.iso.datetime().nullable().meta({
      description: 'Since when all deliveries have failed. After five days the webhook is disabled.',
    }),
    formerSecretUntil: z.iso.datetime().nullable().meta({
      description: 'Until when the secret before the last rotation signs too; null if it was never rotated.',
    }),
    createdAt: z.iso.datetime(),
  })
  .meta({ id: 'Webhook' });

export type Webhook = z.infer<typeof webhookSchema>;

export const createdWebhookSchema = webhookSchema
  .extend({ secret: z.string().meta({ description: 'Verifies the signatures. It is only in this response.' }) })
  .meta({ id: 'CreatedWebhook' });

export type CreatedWebhook = z.infer<typeof createdWebhookSchema>;

export const webhookPageSchema = pageSchema('WebhookPage', webhookSchema);

export const webhookDeliverySchema = z
  .object({
    id: z.string().meta({ description: 'The `webhook-id` of all its attempts.' }),
    type: z.string(),
    state: z.enum(['pending', 'delivered', 'failed']),
    attempts: z.int(),
    createdAt: z.iso.datetime(),
    nextAttemptAt: z.iso.datetime().nullable(),
    deliveredAt: z.iso.datetime().nullable(),
    lastStatus: z.int().nullable().meta({ description: 'The HTTP status of the last response.' }),
    lastError: z.string().nullable(),
    payload: z.record(z.string(), z.unknown()).meta({ description: 'The body: `type`, `timestamp` and `data`.' }),
  })
  .meta({ id: 'WebhookDelivery' });

export type WebhookDelivery = z.infer<typeof webhookDeliverySchema>;

export const webhookDeliveryPageSchema = pageSchema('WebhookDeliveryPage', webhookDeliverySchema);
