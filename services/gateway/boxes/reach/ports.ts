import { exchange, type PortRequest, type PortResponse } from '../../box-server/transport/exchange.ts';
import { ClosedPort } from '../../box-server/transport/tunnel.ts';
import type { BoxRef } from '../box-ref.ts';
import type { Access } from '../life/access.ts';
import type { Activity } from '../life/activity.ts';

export { ClosedPort, type PortRequest, type PortResponse };

export interface PortsOptions {
  access: Pick<Access, 'use'>;
  activity: Activity;
  /** How long a server in a box may take until the head of its response arrives. */
  responseMs: number;
}

/** Reaches servers inside boxes. The box needs no network: every connection goes through its box server. */
export const createPorts = ({ access, activity, responseMs }: PortsOptions) => ({
  /**
   * Sends a request to a port of a box; the caller reads the response. The box is in use until the response has ended. Throws as
   * `access.use` and `exchange` do.
   */
  async send(ref: BoxRef, port: number, ask: PortRequest): Promise<PortResponse> {
    const { server } = await access.use(ref);
    const release = activity.hold(ref.box);
    try {
      const response = await exchange(server.tunnels, port, ask, responseMs);
      (response.upgraded?.socket ?? response.head).once('close', release);
      return response;
    } catch (error) {
      release();
      throw error;
    }
  },
});

export type Ports = ReturnType<typeof createPorts>;
