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

/** Deliveries that one gateway attempts at once, and those of one webhook. */
const maxAtOnce = 32;
const maxEach = 4;
/** How long an attempt may take to be recorded, in addition to its timeout. */
const recordSeconds = 5;
/** Retries differ by up to this share, so that they do not come all at once. */
const jitter = 0.2;

/**
 * Delivers events to webhooks, at least once: an attempt has a lease, after which any gateway repeats it. A slow webhook holds up only its
 * own deliveries.
 */
export const createDeliverer = (options: DelivererOptions) => {
  const { deliveries, outbound, seal, background, retrySeconds, timeoutMs, disableSeconds } = options;
  /** The number of deliveries under way, by webhook. */
  const busy = new Map<string, number>();
  let atOnce = 0;

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
    const { webhookId } = delivery;
    atOnce += 1;
    busy.set(webhookId, (busy.get(webhookId) ?? 0) + 1);
    background.run('deliver to a webhook', () =>
      attempt(delivery).finally(() => {
        atOnce -= 1;
        const left = (busy.get(webhookId) ?? 1) - 1;
        if (left > 0) return void busy.set(webhookId, left);
        busy.delete(webhookId);
        // More may be due for it.
        sweep();
      }),
    );
  };

  const work = async (): Promise<void> => {
    if (background.signal.aborted) return;
    const leaseSeconds = timeoutMs / 1000 + recordSeconds;
    const request = { limit: maxAtOnce - atOnce, each: maxEach, busy: [...busy.keys()], leaseSeconds };
    if (request.limit > 0) for (const delivery of await deliveries.claim(request)) begin(delivery);
  };

  const sweep = background.oneAtATime('find deliveries for webhooks', work);

  return {
    /** Begins the deliveries that are due. */
    sweep,
  };
};

export type Deliverer = ReturnType<typeof createDeliverer>;
