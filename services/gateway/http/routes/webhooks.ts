import { z } from 'zod';
import {
  createdWebhookSchema,
  createWebhookSchema,
  pageQuerySchema,
  rotateWebhookSchema,
  updateWebhookSchema,
  type Webhook,
  type WebhookDelivery,
  webhookDeliveryPageSchema,
  webhookPageSchema,
  webhookSchema,
} from '#contract';
import type { Webhooks } from '../../boxes/webhooks/webhooks.ts';
import type { DeliveryRow } from '../../store/webhooks/deliveries.ts';
import type { WebhookRow } from '../../store/webhooks/webhooks.ts';
import type { Endpoints } from '../endpoint.ts';

const params = z.object({ webhook: z.string().max(64) });
const tag = 'Webhooks';

/** `/v1/webhooks`: URLs to which the events of a tenant are posted. */
export const addWebhookRoutes = ({ add }: Endpoints, webhooks: Webhooks): void => {
  add(
    {
      method: 'post',
      path: '/v1/webhooks',
      scope: 'boxes:write',
      summary: 'Create a webhook: events are posted to its URL, signed as Standard Webhooks',
      tag,
      body: createWebhookSchema,
      responses: { 201: { description: 'The webhook. Its secret is only here.', schema: createdWebhookSchema } },
    },
    async ({ c, tenant, body }) => {
      const { webhook, secret } = await webhooks.create(tenant, body);
      return c.json({ ...toWebhook(webhook), secret }, 201);
    },
  );

  add(
    {
      method: 'get',
      path: '/v1/webhooks',
      scope: 'boxes:read',
      summary: 'List webhooks, the newest first',
      tag,
      query: pageQuerySchema,
      responses: { 200: { description: 'A page of webhooks.', schema: webhookPageSchema } },
    },
    async ({ c, tenant, query }) => {
      const page = await webhooks.list(tenant, query);
      return c.json({ ...page, items: page.items.map(toWebhook) });
    },
  );

  add(
    {
      method: 'get',
      path: '/v1/webhooks/{webhook}',
      scope: 'boxes:read',
      summary: 'Read a webhook',
      tag,
      params,
      responses: { 200: { description: 'The webhook.', schema: webhookSchema } },
    },
    async ({ c, tenant, params }) => c.json(toWebhook(await webhooks.find(tenant, params.webhook))),
  );

  add(
    {
      method: 'patch',
      path: '/v1/webhooks/{webhook}',
      scope: 'boxes:write',
      summary: 'Change the events of a webhook, disable it, or enable it again',
      tag,
      params,
      body: updateWebhookSchema,
      responses: { 200: { description: 'The webhook.', schema: webhookSchema } },
    },
    async ({ c, tenant, params, body }) => c.json(toWebhook(await webhooks.update(tenant, params.webhook, body))),
  );

  add(
    {
      method: 'post',
      path: '/v1/webhooks/{webhook}/rotate',
      scope: 'boxes:write',
      summary: 'Give a webhook a new secret; the former one signs too for a time',
      tag,
      params,
      body: rotateWebhookSchema,
      responses: { 200: { description: 'The webhook. Its new secret is only here.', schema: createdWebhookSchema } },
    },
    async ({ c, tenant, params, body }) => {
      const { webhook, secret } = await webhooks.rotate(tenant, params.webhook, body.graceSeconds);
      return c.json({ ...toWebhook(webhook), secret });
    },
  );

  add(
    {
      method: 'delete',
      path: '/v1/webhooks/{webhook}',
      scope: 'boxes:write',
      summary: 'Delete a webhook with its deliveries',
      tag,
      params,
      responses: { 204: { description: 'The webhook is gone.' } },
    },
    async ({ c, tenant, params }) => {
      await webhooks.remove(tenant, params.webhook);
      return c.body(null, 204);
    },
  );

  add(
    {
      method: 'get',
      path: '/v1/webhooks/{webhook}/deliveries',
      scope: 'boxes:read',
      summary: 'List the deliveries of a webhook in the last 7 days, the newest first',
      tag,
      params,
      query: pageQuerySchema,
      responses: { 200: { description: 'A page of deliveries.', schema: webhookDeliveryPageSchema } },
    },
    async ({ c, tenant, params, query }) => {
      const page = await webhooks.deliveries(tenant, params.webhook, query);
      return c.json({ ...page, items: page.items.map(toDelivery) });
    },
  );

  add(
    {
      method: 'post',
      path: '/v1/webhooks/{webhook}/deliveries/{delivery}/redeliver',
      scope: 'boxes:write',
      summary: 'Deliver an event again',
      tag,
      params: params.extend({ delivery: z.string().max(64) }),
      responses: { 202: { description: 'It is delivered soon.' } },
    },
    async ({ c, tenant, params }) => {
      await webhooks.redeliver(tenant, params.webhook, params.delivery);
      return c.body(null, 202);
    },
  );
};

const toWebhook = (row: WebhookRow): Webhook => ({
  id: row.id,
  url: row.url,
  types: row.types,
  enabled: row.enabled,
  failingSince: row.failingSince?.toISOString() ?? null,
  formerSecretUntil: row.formerUntil?.toISOString() ?? null,
  createdAt: row.createdAt.toISOString(),
});

const toDelivery = (row: DeliveryRow): WebhookDelivery => ({
  id: row.id,
  type: row.type,
  state: row.state,
  attempts: row.attempts,
  createdAt: row.createdAt.toISOString(),
  nextAttemptAt: row.state === 'pending' ? row.nextAt.toISOString() : null,
  deliveredAt: row.deliveredAt?.toISOString() ?? null,
  lastStatus: row.lastStatus,
  lastError: row.lastError,
  payload: row.payload,
});
