import { type Outbound, OutboundError } from '../../../outbound/outbound.ts';
import type { Background } from '../../../waiting/background.ts';
import type { ClaimedDelivery, DeliveryStore } from '../../store/webhooks/deliveries.ts';
import { signedHeaders } from './signature.ts';

export interface DelivererOptions {
  deliveries: Pick<DeliveryStore, 'claim' | 'succeed' | 'fail'>;
  outbound: Pick<Outbound, 'send'>;
  seal: (text: string) => string;
  background: Background;
  /** After how many seconds each attempt that failed is repeated. */
  retrySeconds: readonly number[];
  /** How long a webhook may take to respond. */
  timeoutMs: number;
  /** How long a webhook may fail before it is disabled. */
  disableSeconds: number;
}

/** Deliveries that one gateway attempts at once, those of one tenant, and those of one webhook. */
export const deliveriesAtOnce = 32;
const eachTenant = 8;
const each = 4;
/** How long an attempt may take to be recorded, in addition to its timeout. */
const recordSeconds = 5;
/** Retries differ by up to this share, so that they do not come all at once. */
const jitter = 0.2;

/**
 * Delivers events to webhooks, at least once: an attempt has a lease, after which any gateway repeats it. Slow webhooks hold up
 * deliveries of their own tenant alone.
 */
export const createDeliverer = (options: DelivererOptions) => {
  const { deliveries, outbound, seal, background, retrySeconds, timeoutMs, disableSeconds } = options;
  const underWay = new Set<ClaimedDelivery>();

  const post = async ({ id, webhookId, url, secrets, payload }: ClaimedDelivery): Promise<number> => {
    const body = JSON.stringify(payload);
    const headers = {
      'content-type': 'application/json',
      'user-agent': 'CodeBox-Webhooks',
      ...signedHeaders(seal, { webhook: webhookId, secrets, id, body, at: new Date() }),
    };
    const signal = AbortSignal.any([AbortSignal.timeout(timeoutMs), background.signal]);
    return (await outbound.send({ url, method: 'POST', headers, body, signal, maxBytes: 1024 })).status;
  };

  const attempt = async (delivery: ClaimedDelivery): Promise<void> => {
    let failure: { status: number | null; error: string };
    try {
      const status = await post(delivery);
      if (status >= 200 && status < 300) return await deliveries.succeed(delivery, status);
      failure = { status, error: `The response had the status ${status}.` };
    } catch (error) {
      // A gateway that stops leaves the attempt to the others.
      if (background.signal.aborted || !(error instanceof OutboundError)) throw error;
      failure = { status: null, error: error.message };
    }
    const pause = retrySeconds[delivery.attempt - 1];
    const spread = 1 + jitter * (2 * Math.random() - 1);
    await deliveries.fail(delivery, {
      ...failure,
      retrySeconds: pause === undefined ? undefined : pause * spread,
      // 410: the webhook wants no more.
      disableSeconds: failure.status === 410 ? 0 : disableSeconds,
    });
  };

  const begin = (delivery: ClaimedDelivery): void => {
    underWay.add(delivery);
    background.run('deliver to a webhook', () =>
      attempt(delivery).finally(() => {
        underWay.delete(delivery);
        // More may be due for its webhook.
        if (![...underWay].some(({ webhookId }) => webhookId === delivery.webhookId)) sweep();
      }),
    );
  };

  const work = async (): Promise<void> => {
    const limit = deliveriesAtOnce - underWay.size;
    if (background.signal.aborted || limit === 0) return;
    const leaseSeconds = timeoutMs / 1000 + recordSeconds;
    const claimed = await deliveries.claim({ limit, each, eachTenant, underWay: [...underWay], leaseSeconds });
    for (const delivery of claimed) begin(delivery);
  };

  const sweep = background.oneAtATime('find deliveries for webhooks', work);

  return {
    /** Begins the deliveries that are due. */
    sweep,
  };
};

export type Deliverer = ReturnType<typeof createDeliverer>;
