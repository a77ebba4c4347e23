import { CodeBoxError, hasCode, type NetworkPolicy } from '#contract';
import type { Background } from '../../../waiting/background.ts';
import type { Driver } from '../../drivers/driver.ts';
import type { BoxRow } from '../../store/box/boxes.ts';
import type { Store } from '../../store/store.ts';
import type { Directory } from '../life/directory.ts';
import { canceledError, type Leases, RollbackFailed } from './leases.ts';

export interface ConnectingOptions {
  driver: Pick<Driver, 'capabilities' | 'bind'>;
  store: Pick<Store, 'tasks' | 'networks'>;
  directory: Pick<Directory, 'instanceOf' | 'invalidate'>;
  leases: Leases;
  background: Background;
}

const connectMs = 30_000;
/** After these errors of an instance there is nothing to undo. */
const settled = ['conflict', 'gone', 'not_found'] as const;

/**
 * Changes the network of running boxes. The row of a box keeps its network until the other one is in force, so a change that failed, or
 * whose gateway died, is undone by applying the network of the row.
 */
export const createConnecting = ({ driver, store, directory, leases, background }: ConnectingOptions) => {
  const { bind } = driver.capabilities;

  /** Throws `invalid_request` for a network that the driver cannot give to a running box. */
  const check = (network: NetworkPolicy): void => {
    if (bind.networks.includes(network)) return;
    const detail = `cannot be changed to ${network} here while the box runs; hibernate the box first`;
    throw new CodeBoxError('invalid_request', 'The network of a running box cannot be changed.', {
      errors: [{ pointer: '/network', detail }],
    });
  };

  /**
   * Ends a change that was interrupted. Where the driver can give a network but not take it away, the change is completed, else undone.
   * Resolves with the network that is in force.
   */
  const settle = async (box: BoxRow): Promise<NetworkPolicy> => {
    const [other = box.network] = bind.networks;
    const network = bind.networks.includes(box.network) ? box.network : other;
    const { instance, server } = await directory.instanceOf(box);
    await driver.bind(instance, { network }, AbortSignal.timeout(connectMs));
    await background.attempt('tell a box its network', () => server.connect(network));
    return network;
  };

  const rollBack = async (box: BoxRow, taskId: string): Promise<NetworkPolicy> => {
    try {
      return (await store.tasks.renew(box.id, taskId)) ? await settle(box) : box.network;
    } catch (cause) {
      throw new RollbackFailed(cause);
    }
  };

  /** Ends a change whose gateway has died. */
  const recover = async (box: BoxRow, taskId: string): Promise<void> => {
    const network = await rollBack(box, taskId).catch((error: RollbackFailed) => {
      // The network of such a box never changes, or it has no instance any more.
      if (settled.some((code) => hasCode(error.cause, code))) return box.network;
      throw error;
    });
    await store.networks.markConnected(box.id, taskId, network);
  };

  return {
    check,
    recover,

    /** Performs the task `connect`. Throws `conflict` for a box that was started without support for other networks. */
    connect: (box: BoxRow, taskId: string, network: NetworkPolicy): Promise<void> =>
      leases.run({ boxId: box.id, taskId, forMs: connectMs, retryMs: () => 0 }, async (signal) => {
        const { instance, server } = await directory.instanceOf(box);
        try {
          // First, because a box server of an older image refuses.
          await server.connect(network);
          await driver.bind(instance, { network }, signal);
        } catch (error) {
          if (hasCode(error, 'conflict')) {
            // Its network has not changed.
            await background.attempt('tell a box its network', () => server.connect(box.network));
            throw error;
          }
          if ((await rollBack(box, taskId)) !== network) throw error;
        }
        if (!(await store.networks.markConnected(box.id, taskId, network))) throw canceledError();
        directory.invalidate(box.id);
      }),
  };
};

export type Connecting = ReturnType<typeof createConnecting>;
