import { exchange, type PortAnswer, type PortRequest } from '../../box-server/exchange.ts';
import type { BoxRef } from '../box-ref.ts';
import type { Activity } from '../life/activity.ts';
import type { Lifecycle } from '../life/lifecycle.ts';

export type { PortAnswer, PortRequest };

export interface PortsOptions {
  lifecycle: Pick<Lifecycle, 'use'>;
  activity: Activity;
  /** How long a server in a box may think before the head of its answer comes. */
  answerMs: number;
}

/** Servers inside boxes. The box needs no network for it: every connection goes through its box server. */
export const createPorts = ({ lifecycle, activity, answerMs }: PortsOptions) => ({
  /**
   * Sends a request to a port of a box; the caller reads the answer. The box is in use until the answer has ended. Throws what
   * `lifecycle.use` and `exchange` throw.
   */
  async send(ref: BoxRef, port: number, ask: PortRequest): Promise<PortAnswer> {
    const { server } = await lifecycle.use(ref);
    const release = activity.hold(ref.box);
    try {
      const answer = await exchange(server.tunnels, port, ask, answerMs);
      (answer.upgraded?.socket ?? answer.head).once('close', release);
      return answer;
    } catch (error) {
      release();
      throw error;
    }
  },
});

export type Ports = ReturnType<typeof createPorts>;
