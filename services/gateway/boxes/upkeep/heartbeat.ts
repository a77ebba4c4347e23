import { ConfigurationError } from '../../../configuration-error.ts';
import type { Background } from '../../../waiting/background.ts';
import type { GatewayStore, Occupied, Serving } from '../../store/gateways.ts';
import type { Activity } from '../life/activity.ts';

export interface HeartbeatOptions {
  /** This gateway. Its id is new at each start. */
  gateway: Serving;
  /** The place that this gateway's place replaces, if there is one; `any` stands for every place. */
  replaced: string | undefined;
  gateways: Pick<GatewayStore, 'enter' | 'holdsSite' | 'renew' | 'leave'>;
  activity: Pick<Activity, 'flush'>;
  background: Pick<Background, 'attempt' | 'oneAtATime'>;
  everyMs: number;
  /** Called once when another place has the name of the site: this gateway must not touch its boxes any more. */
  onDisplaced: (error: ConfigurationError) => void;
}

/** Shows other gateways that this one is alive and which boxes it uses. Runs apart from sweeps, which may take long. */
export const createHeartbeat = (options: HeartbeatOptions) => {
  const { gateway, replaced, gateways, activity, background, everyMs } = options;
  let timer: NodeJS.Timeout | undefined;
  let isStopped = false;

  const flush = background.oneAtATime('write activity', activity.flush);
  const renew = async () => {
    if (await gateways.holdsSite(gateway)) return await gateways.renew(gateway);
    isStopped = true;
    options.onDisplaced(
      new ConfigurationError(
        `Another host or data folder has taken the site ${gateway.site} over: this gateway stops.`,
      ),
    );
  };
  const beat = async () => {
    // The heartbeat does not wait for the flush.
    flush();
    await background.attempt('renew the heartbeat', renew);
    schedule();
  };
  const schedule = () => {
    if (!isStopped) timer = setTimeout(() => void beat(), everyMs);
  };

  return {
    /** Throws a ConfigurationError when another place has the name of the site. */
    async start(): Promise<void> {
      const occupied = await gateways.enter(gateway, replaced);
      if (occupied) throw occupiedError(gateway.site, occupied);
      schedule();
    },
    /** Ends the heartbeat, so that other gateways may take over unfinished work at once. */
    async stop(): Promise<void> {
      isStopped = true;
      clearTimeout(timer);
      await background.attempt('write activity', activity.flush);
      await background.attempt('sign off', () => gateways.leave(gateway.id));
    },
  };
};

const occupiedError = (site: string, occupied: Occupied): ConfigurationError => {
  if (occupied.by === 'former')
    return new ConfigurationError(
      `Boxes or gateways of the site ${occupied.site} are left in this data folder: set CODEBOX_SITE=${occupied.site}, or CODEBOX_DATA_DIR to a folder of its own for the site ${site}.`,
    );
  const own = 'set CODEBOX_SITE to a name of its own for this one';
  const { by, place } = occupied;
  if (by === 'gateways')
    return new ConfigurationError(
      `Gateways of another host or data folder serve the site ${site} of this database: ${own}.`,
    );
  return new ConfigurationError(
    `Boxes of another host or data folder are left at the site ${site} of this database: ${own}, or CODEBOX_REPLACES=${place} if it has replaced that one, whose boxes are lost then.`,
  );
};
