import type { OperationTexts } from '../../../http/endpoints/operation-texts.ts';
import { at, ids, pageOf } from './examples.ts';

const types = ['execution.ended', 'box.ended'];
const webhook = {
  id: ids.webhook,
  url: 'https://example.com/codebox',
  types,
  enabled: true,
  failingSince: null,
  formerSecretUntil: null,
  createdAt: at,
};

/** Descriptions and examples of the operations on webhooks. */
export const webhookTexts: OperationTexts = {
  'POST /v1/webhooks': {
    description:
      'Events are posted as `{"type", "timestamp", "data"}`, at least once, and signed with the `secret` as in Standard Webhooks. An attempt ' +
      'that gets no 2xx within 15 s is repeated for a day.',
    request: { url: webhook.url, types },
    response: { ...webhook, secret: 'whsec_cZ2lQ7v2oOQ0Vd3kz5oYyOQ8bJrXJm0tW1n4n9r0xGk=' },
  },
  'GET /v1/webhooks': {
    description: 'Lists the webhooks of the tenant, without their secrets.',
    response: pageOf(webhook),
  },
  'GET /v1/webhooks/{webhook}': {
    description: '`failingSince` is set from the first failed delivery to the next one that succeeds.',
    response: webhook,
  },
  'PATCH /v1/webhooks/{webhook}': {
    description:
      'Enabling a webhook makes its pending deliveries due. The URL stays: create another webhook for another one.',
    request: { enabled: true },
    response: webhook,
  },
  'POST /v1/webhooks/{webhook}/rotate': {
    description:
      'Until `formerSecretUntil` deliveries have a signature of each secret, so that a receiver with either accepts them. A second rotation in ' +
      'that time keeps the earlier secrets too, up to four.',
    request: { graceSeconds: 3600 },
    response: { ...webhook, formerSecretUntil: at, secret: 'whsec_mJ0aY8s9cF1bQn5t2u7VxR4e6w3Z8k1pLd0oHgTfSjE=' },
  },
  'DELETE /v1/webhooks/{webhook}': {
    description: 'An attempt that has begun is completed.',
  },
  'GET /v1/webhooks/{webhook}/deliveries': {
    description: 'Deliveries are kept for 7 days, with the result of their last attempt.',
    response: pageOf({
      id: ids.delivery,
      type: 'box.ended',
      state: 'delivered',
      attempts: 1,
      createdAt: at,
      nextAttemptAt: null,
      deliveredAt: at,
      lastStatus: 204,
      lastError: null,
      payload: { type: 'box.ended', timestamp: at, data: { box: ids.box, template: 'python', state: 'deleted' } },
    }),
  },
  'POST /v1/webhooks/{webhook}/deliveries/{delivery}/redeliver': {
    description: 'The same event is delivered with the same `webhook-id`, whether or not it was accepted before.',
  },
};
