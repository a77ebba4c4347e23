import { CodeBoxError, type CreateWebhook, type Page, type PageQuery, type UpdateWebhook } from '#contract';
import type { Outbound } from '../../../outbound/outbound.ts';
import { newId } from '../../../postgres/id.ts';
import type { DeliveryRow, DeliveryStore } from '../../store/webhooks/deliveries.ts';
import type { WebhookRow, WebhookStore } from '../../store/webhooks/webhooks.ts';
import { secretOf } from './signature.ts';

export interface WebhooksOptions {
  webhooks: WebhookStore;
  deliveries: Pick<DeliveryStore, 'list' | 'redeliver'>;
  outbound: Pick<Outbound, 'faultOf'>;
  seal: (text: string) => string;
}

const maxWebhooks = 10;
/** Secrets of one webhook that sign at once. */
const maxSecrets = 5;

/** Webhooks of tenants, and the log of their deliveries. */
export const createWebhooks = ({ webhooks, deliveries, outbound, seal }: WebhooksOptions) => {
  const find = async (tenant: string, id: string): Promise<WebhookRow> => {
    const row = await webhooks.find(tenant, id);
    if (!row) throw noWebhook();
    return row;
  };

  return {
    find,
    list: (tenant: string, query: PageQuery): Promise<Page<WebhookRow>> => webhooks.list(tenant, query),

    /** Creates a webhook. Throws `invalid_request` for a URL in the operator's network. */
    async create(tenant: string, { url, types }: CreateWebhook): Promise<{ webhook: WebhookRow; secret: string }> {
      const fault = outbound.faultOf(url);
      if (fault !== undefined)
        throw new CodeBoxError('invalid_request', 'The URL cannot be reached.', {
          errors: [{ pointer: '/url', detail: fault }],
        });
      const id = newId('whk');
      const webhook = await webhooks.insert({ id, tenantId: tenant, url, types: [...new Set(types)] }, maxWebhooks);
      if (!webhook) throw new CodeBoxError('too_many_requests', `The tenant has ${maxWebhooks} webhooks. Delete one.`);
      return { webhook, secret: secretOf(seal, id, webhook.secretNumber) };
    },

    async update(tenant: string, id: string, changes: UpdateWebhook): Promise<WebhookRow> {
      const row = await webhooks.update(tenant, id, changes);
      if (!row) throw noWebhook();
      return row;
    },

    /** Gives a webhook a new secret; the former one signs too for a time. */
    async rotate(tenant: string, id: string, graceSeconds: number): Promise<{ webhook: WebhookRow; secret: string }> {
      const webhook = await webhooks.rotate(tenant, id, graceSeconds, maxSecrets);
      if (!webhook) throw noWebhook();
      return { webhook, secret: secretOf(seal, id, webhook.secretNumber) };
    },

    async remove(tenant: string, id: string): Promise<void> {
      if (!(await webhooks.remove(tenant, id))) throw noWebhook();
    },

    async deliveries(tenant: string, id: string, query: PageQuery): Promise<Page<DeliveryRow>> {
      await find(tenant, id);
      return await deliveries.list(id, query);
    },

    async redeliver(tenant: string, id: string, delivery: string): Promise<void> {
      await find(tenant, id);
      if (!(await deliveries.redeliver(id, delivery)))
        throw new CodeBoxError('not_found', 'There is no such delivery.');
    },
  };
};

export type Webhooks = ReturnType<typeof createWebhooks>;

const noWebhook = () => new CodeBoxError('not_found', 'There is no such webhook.');
