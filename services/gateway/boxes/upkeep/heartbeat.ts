import type { Background } from '../../../waiting/background.ts';
import type { GatewayStore } from '../../store/gateways.ts';
import type { Activity } from '../life/activity.ts';

export interface HeartbeatOptions {
  /** The id of this gateway: a new one at each start. */
  gateway: string;
  gateways: Pick<GatewayStore, 'renew' | 'leave'>;
  activity: Pick<Activity, 'flush'>;
  background: Pick<Background, 'attempt' | 'oneAtATime'>;
  everyMs: number;
}

/** Tells the other gateways that this one lives, and which boxes are in use through it; apart from sweeps, which may take long. */
export const createHeartbeat = ({ gateway, gateways, activity, background, everyMs }: HeartbeatOptions) => {
  let timer: NodeJS.Timeout | undefined;
  let isStopped = false;

  const flush = background.oneAtATime('write activity', activity.flush);
  const beat = async () => {
    // A sign of life waits for nothing else.
    flush();
    await background.attempt('give a sign of life', () => gateways.renew(gateway));
    schedule();
  };
  const schedule = () => {
    if (!isStopped) timer = setTimeout(() => void beat(), everyMs);
  };

  return {
    async start(): Promise<void> {
      await gateways.renew(gateway);
      schedule();
    },
    /** The last sign: what this gateway leaves unfinished may be taken over. */
    async stop(): Promise<void> {
      isStopped = true;
      clearTimeout(timer);
      await background.attempt('write activity', activity.flush);
      await background.attempt('take leave', () => gateways.leave(gateway));
    },
  };
};
