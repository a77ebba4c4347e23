import {
  type CreatedWebhook,
  type CreateWebhook,
  createdWebhookSchema,
  type RotateWebhook,
  type UpdateWebhook,
  type Webhook,
  webhookDeliveryPageSchema,
  webhookPageSchema,
  webhookSchema,
} from '../tenants/webhooks.ts';
import { type CallOptions, pathOf, type Transport } from './transport.ts';

/** URLs to which the events of a tenant are posted, such as the end of a run or a box. */
export const createWebhooks = (transport: Transport) => ({
  /** Only the result has the `secret`, which verifies the signatures. */
  create: (body: CreateWebhook, options?: CallOptions): Promise<CreatedWebhook> =>
    transport.json(createdWebhookSchema, { method: 'POST', path: pathOf('webhooks'), json: body, options }),

  read: (webhook: string, options?: CallOptions): Promise<Webhook> =>
    transport.json(webhookSchema, { path: pathOf('webhooks', webhook), options }),

  /** Newest first. */
  list: (options?: CallOptions) => transport.items(webhookPageSchema, { path: pathOf('webhooks'), options }),

  update: (webhook: string, body: UpdateWebhook, options?: CallOptions): Promise<Webhook> =>
    transport.json(webhookSchema, { method: 'PATCH', path: pathOf('webhooks', webhook), json: body, options }),

  /** Gives a webhook a new secret, which only the result has. The former one signs too for a time. */
  rotate: (webhook: string, body: RotateWebhook = {}, options?: CallOptions): Promise<CreatedWebhook> =>
    transport.json(createdWebhookSchema, {
      method: 'POST',
      path: pathOf('webhooks', webhook, 'rotate'),
      json: body,
      options,
    }),

  delete: (webhook: string, options?: CallOptions): Promise<void> =>
    transport.done({ method: 'DELETE', path: pathOf('webhooks', webhook), options }),

  /** The deliveries of a webhook, newest first. */
  deliveries: (webhook: string, options?: CallOptions) =>
    transport.items(webhookDeliveryPageSchema, { path: pathOf('webhooks', webhook, 'deliveries'), options }),

  /** Delivers an event again. */
  redeliver: (webhook: string, delivery: string, options?: CallOptions): Promise<void> =>
    transport.done({
      method: 'POST',
      path: pathOf('webhooks', webhook, 'deliveries', delivery, 'redeliver'),
      options,
    }),
});
