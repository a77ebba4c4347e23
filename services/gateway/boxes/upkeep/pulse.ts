import type { BoxCause } from '#contract';
import type { Background } from '../../../waiting/background.ts';
import type { BoxConnections } from '../../box-server/connections.ts';
import type { Endpoint } from '../../box-server/transport/endpoint.ts';
import { silenceOf } from '../../box-server/transport/silence.ts';
import type { Driver, InstanceUsage } from '../../drivers/driver.ts';
import type { BoxWithInstance } from '../../store/box/boxes.ts';
import type { Store } from '../../store/store.ts';
import { refOf } from '../box-ref.ts';
import type { Directory } from '../life/directory.ts';
import type { Endings } from '../life/endings.ts';
import { sampleOne } from '../usage/sample.ts';

export interface PulseOptions {
  driver: Pick<Driver, 'site' | 'usage' | 'inspect'>;
  /** The id of this gateway. */
  gateway: string;
  gateways: Pick<Store['gateways'], 'shareOf'>;
  boxes: Pick<Store['boxes'], 'listWithInstances'>;
  directory: Pick<Directory, 'locate'>;
  endings: Pick<Endings, 'lose'>;
  connections: Pick<BoxConnections, 'endpointOf'>;
  background: Background;
  /** How long a box server may be silent. */
  silenceMs: number;
}

const page = 16;
/** Gateways divide boxes beyond this number among them: each probe is a connection, across hosts with a TLS handshake. */
const undivided = 100;
const driverMs = 5000;
const tries = 3;
/** How many times longer a busy box may be silent, or any box while most of the others are silent too. */
const patience = 20;
/** A box is busy that uses this share of a CPU, or half of its limit. On a busy host it may not get more. */
const busyShare = 0.1;

const unresponsive = {
  code: 'unresponsive',
  detail: 'The box server stopped responding.',
} as const satisfies BoxCause;

/**
 * Probes the box servers of all ready boxes, and ends boxes whose server hangs as lost, because they are useless. Any number of
 * gateways may do so at once, and they divide many boxes among them. Those of a gateway that has died are probed again once its lease is over.
 */
export const createPulse = (options: PulseOptions) => {
  const { driver, gateway, gateways, boxes, directory, endings, connections, background, silenceMs } = options;
  const silent = new Set<string>();
  /** How many boxes responded in the last sweep. */
  let responding = 0;

  /** Returns the share of a CPU that an instance has used since a sample; undefined when the host has no newer sample. */
  const shareSince = async (instance: string, begun: InstanceUsage | undefined): Promise<number | undefined> => {
    const now = await sampleOne(driver, instance, driverMs);
    const ms = now && begun ? now.at.getTime() - begun.at.getTime() : 0;
    return now && begun && ms > 0 ? (now.cpuMs - begun.cpuMs) / ms : undefined;
  };

  /** Waits for a silent box. Resolves with true once it responds, with false when it has been silent for too long. */
  const recovers = async (
    { box, instance }: BoxWithInstance,
    endpoint: Endpoint,
    silentMs: number,
  ): Promise<boolean> => {
    const begun = await sampleOne(driver, instance, driverMs);
    for (;;) {
      const ms = await silenceOf(endpoint, silenceMs / tries);
      if (ms === 0) return true;
      silentMs += ms;
      if (background.signal.aborted) return true;
      if (silentMs < silenceMs) continue;
      // Without a sample, the box may be busy.
      const share = (await shareSince(instance, begun)) ?? Number.POSITIVE_INFINITY;
      const isBusy = share > Math.min(busyShare, box.limits.cpus / 2) || silent.size > Math.max(1, responding);
      if (!isBusy || silentMs > patience * silenceMs) return false;
    }
  };

  /** Resolves with whether a box responds, and watches one that does not. */
  const probe = async (found: BoxWithInstance): Promise<boolean> => {
    const { box, instance, address } = found;
    if (address === null || silent.has(instance)) return false;
    const endpoint = connections.endpointOf(instance, address);
    const ms = await silenceOf(endpoint, silenceMs / tries);
    if (ms === 0) return true;
    silent.add(instance);
    // The sweep goes on with the other boxes meanwhile.
    background.run('watch a silent box', async () => {
      try {
        if (await recovers(found, endpoint, ms)) return;
        // The box may rest by now, and an instance that has ended is lost for another reason.
        const now = await directory.locate(refOf(box));
        if (now.box.state !== 'ready' || now.box.task !== null || now.instance?.id !== instance) return;
        if ((await driver.inspect(instance, AbortSignal.timeout(driverMs)))?.state !== 'running') return;
        await endings.lose(box.id, instance, unresponsive);
      } finally {
        silent.delete(instance);
      }
    });
    return false;
  };

  const sweep = async (): Promise<void> => {
    const share = await gateways.shareOf({ id: gateway, site: driver.site }, undivided);
    let responded = 0;
    for (let after = ''; !background.signal.aborted; ) {
      const found = await boxes.listWithInstances(driver.site, { after, limit: page, budgeted: false, share });
      const results = await Promise.all(found.filter(({ box }) => box.task === null).map(probe));
      responded += results.filter(Boolean).length;
      const end = found.at(-1);
      if (found.length < page || !end) break;
      after = end.instance;
    }
    responding = responded;
  };

  return {
    /** Whether boxes responded in the last sweep. The next one finds out how many still do. */
    isBusy: (): boolean => responding > 0,
    /** Probes all boxes, without holding up the other sweeps. */
    sweep: background.oneAtATime('probe the boxes', sweep),
  };
};

export type Pulse = ReturnType<typeof createPulse>;
