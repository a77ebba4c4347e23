import { CodeBoxError } from '#contract';
import { runHostCommand } from '../host-command.ts';
import { type Daemon, httpStatus } from './daemon.ts';
import { createPacketFilter } from './packet-filter.ts';

const name = 'codebox';
const bridge = 'codebox0';

/**
 * The network of boxes that may reach the internet: a bridge on which boxes do not see each other, and packet filter rules
 * that keep them from every address that is not public. All deployments on a host share it, so that none is left behind.
 * Without root, iptables and the daemon's DOCKER-USER chain there is no such network: `available` is false, and nothing falls
 * open.
 */
export const createInternetNetwork = (daemon: Daemon) => {
  const filter = createPacketFilter({ bridge, chain: 'CODEBOX' });

  const makeBridge = (signal: AbortSignal) =>
    daemon.call(signal, async (docker, abortSignal) => {
      try {
        await docker.createNetwork({
          Name: name,
          Driver: 'bridge',
          CheckDuplicate: true,
          EnableIPv6: false,
          Options: {
            'com.docker.network.bridge.name': bridge,
            'com.docker.network.bridge.enable_icc': 'false',
            'com.docker.network.bridge.enable_ip_masquerade': 'true',
          },
          abortSignal,
        });
      } catch (error) {
        // It is there already.
        if (httpStatus(error) !== 409) throw error;
      }
    });

  return {
    name,
    /** Whether boxes can have it: makes it, applies its rules and reads them back. */
    async available(signal: AbortSignal): Promise<boolean> {
      if (process.getuid?.() !== 0) return false;
      try {
        await runHostCommand(['iptables', '--wait', '-S', 'DOCKER-USER'], { signal });
        await makeBridge(signal);
        await filter.apply(signal);
        return await filter.inForce(signal);
      } catch {
        // No packet filter here, or no right to use it: the policy is not offered.
        return false;
      }
    },
    /** Throws `unavailable` unless the rules are in force now; something on the host may have flushed them. */
    async ensure(signal: AbortSignal): Promise<void> {
      await makeBridge(signal);
      if (await filter.inForce(signal)) return;
      await filter.apply(signal);
      if (!(await filter.inForce(signal))) {
        throw new CodeBoxError('unavailable', 'The network rules could not be applied.');
      }
    },
  };
};

export type InternetNetwork = ReturnType<typeof createInternetNetwork>;
