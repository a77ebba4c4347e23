import type { BoxServerFailure } from './answer.ts';
import { type BoxServerClient, createBoxServerClient } from './client.ts';
import { createJupyterClient, type JupyterClient } from './jupyter.ts';
import { createTunnels, type Tunnels } from './tunnel.ts';

export interface BoxConnection extends BoxServerClient {
  jupyter: JupyterClient;
  tunnels: Tunnels;
}

/** More than the most boxes that a deployment may have, so that none in use is closed. */
const maxConnections = 10_000;

/**
 * The clients of the boxes in use, by address; the longest unused one is closed when there are too many. `onFailure` is told of
 * each call that a box did not answer as it should.
 */
export const createBoxConnections = (onFailure?: (failure: BoxServerFailure) => void) => {
  const open = new Map<string, BoxConnection>();

  const drop = (address: string) => {
    const connection = open.get(address);
    open.delete(address);
    // Its requests fail with `unavailable`, which is true: the box is gone or was not used for long.
    void connection?.close();
  };

  return {
    to(address: string): BoxConnection {
      const known = open.get(address);
      if (known) {
        open.delete(address);
        open.set(address, known);
        return known;
      }
      const client = createBoxServerClient(address, onFailure);
      const tunnels = createTunnels(address);
      const close = async () => {
        tunnels.close();
        await client.close();
      };
      const connection = { ...client, jupyter: createJupyterClient(client.agent), tunnels, close };
      open.set(address, connection);
      const oldest = open.size > maxConnections ? open.keys().next().value : undefined;
      if (oldest !== undefined) drop(oldest);
      return connection;
    },
    drop,
    close: async () => {
      await Promise.all([...open.values()].map((connection) => connection.close()));
      open.clear();
    },
  };
};

export type BoxConnections = ReturnType<typeof createBoxConnections>;
