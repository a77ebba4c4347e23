import type { BoxCause } from '#contract';
import type { Background } from '../../../waiting/background.ts';
import type { BoxConnections } from '../../box-server/connections.ts';
import type { Endpoint } from '../../box-server/endpoint.ts';
import { silenceOf } from '../../box-server/silence.ts';
import type { Driver, InstanceUsage } from '../../drivers/driver.ts';
import type { EmbodiedBox } from '../../store/box/boxes.ts';
import type { Store } from '../../store/store.ts';
import { refOf } from '../box-ref.ts';
import type { Lifecycle } from '../life/lifecycle.ts';
import { sampleOne } from '../usage/sample.ts';

export interface PulseOptions {
  driver: Pick<Driver, 'site' | 'usage' | 'inspect'>;
  boxes: Pick<Store['boxes'], 'embodied'>;
  lifecycle: Pick<Lifecycle, 'findEmbodied' | 'lose'>;
  connections: Pick<BoxConnections, 'endpointOf'>;
  background: Background;
  /** For how long a box server may say nothing. */
  silenceMs: number;
}

const page = 16;
const driverMs = 5000;
const tries = 3;
/** So many times as long a box may be silent that is at work, or when most of the others are silent too. */
const patience = 20;
/** A box that uses so much of a CPU, or half of what it has, is at work; on a host that is busy itself it gets no more. */
const busyShare = 0.1;

const unresponsive = {
  code: 'unresponsive',
  detail: 'The server of the box stood still.',
} as const satisfies BoxCause;

/**
 * Listens to the servers of all boxes that are ready, and loses those that stand still: nothing can be done with them any more. Any
 * number of gateways may do so at once.
 */
export const createPulse = ({ driver, boxes, lifecycle, connections, background, silenceMs }: PulseOptions) => {
  const silent = new Set<string>();
  /** How many have answered in the last sweep. */
  let heard = 0;

  /** The share of a CPU that an instance has used since a sample of it; undefined when the host has measured nothing since. */
  const shareSince = async (instance: string, begun: InstanceUsage | undefined): Promise<number | undefined> => {
    const now = await sampleOne(driver, instance, driverMs);
    const ms = now && begun ? now.at.getTime() - begun.at.getTime() : 0;
    return now && begun && ms > 0 ? (now.cpuMs - begun.cpuMs) / ms : undefined;
  };

  /** Waits until it answers, or has been silent for too long, and says which. */
  const answersAgain = async (
    { box, instance }: EmbodiedBox,
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
      // One that cannot be measured may be at work.
      const share = (await shareSince(instance, begun)) ?? Number.POSITIVE_INFINITY;
      const isBusy = share > Math.min(busyShare, box.limits.cpus / 2) || silent.size > Math.max(1, heard);
      if (!isBusy || silentMs > patience * silenceMs) return false;
    }
  };

  /** Whether it answers; one that does not is looked after. */
  const listen = async (found: EmbodiedBox): Promise<boolean> => {
    const { box, instance, address } = found;
    if (address === null || silent.has(instance)) return false;
    const endpoint = connections.endpointOf(instance, address);
    const ms = await silenceOf(endpoint, silenceMs / tries);
    if (ms === 0) return true;
    silent.add(instance);
    // Not waited for: the others are listened to meanwhile.
    background.run('listen to a silent box', async () => {
      try {
        if (await answersAgain(found, endpoint, ms)) return;
        // It may have been put aside meanwhile, and what has ended altogether is lost for another reason.
        const { box: now, instance: its } = await lifecycle.findEmbodied(refOf(box));
        if (now.state !== 'ready' || now.task !== null || its?.id !== instance) return;
        if ((await driver.inspect(instance, AbortSignal.timeout(driverMs)))?.state !== 'running') return;
        await lifecycle.lose(box.id, instance, unresponsive);
      } finally {
        silent.delete(instance);
      }
    });
    return false;
  };

  const sweep = async (): Promise<void> => {
    let answered = 0;
    for (let after = ''; !background.signal.aborted; ) {
      const found = await boxes.embodied(driver.site, { after, limit: page, budgeted: false });
      const answers = await Promise.all(found.filter(({ box }) => box.task === null).map(listen));
      answered += answers.filter(Boolean).length;
      const end = found.at(-1);
      if (found.length < page || !end) break;
      after = end.instance;
    }
    heard = answered;
  };

  return {
    /** Beside the other sweeps, which wait for nobody. */
    sweep: background.oneAtATime('listen to the boxes', sweep),
  };
};

export type Pulse = ReturnType<typeof createPulse>;
