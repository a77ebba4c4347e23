import { CodeBoxError } from '#contract';
import { runHostCommand } from '../../host/host-command.ts';
import type { Endpoint } from '../../package-sources.ts';
import { type Daemon, httpStatus } from '../daemon/daemon.ts';
import { createPacketFilter } from './packet-filter.ts';

const name = 'codebox';
const bridge = 'codebox0';

/**
 * The network of boxes that may reach the internet: a bridge on which boxes cannot reach each other, and packet filter rules that block every
 * address that is not public, except the given endpoints. All deployments on a host share it, so that none is left over. It needs root,
 * iptables and the daemon's DOCKER-USER chain; without them `obstacle` returns the reason and no box gets a network.
 */
export const createInternetNetwork = (daemon: Daemon, own: { deployment: string; endpoints: readonly Endpoint[] }) => {
  const filter = createPacketFilter({ bridge, chain: 'CODEBOX', ...own });

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
        // 409: the network exists already.
        if (httpStatus(error) !== 409) throw error;
      }
    });

  return {
    name,
    /** Creates the network, applies its rules and reads them back. Returns why boxes cannot use it, or undefined when they can. */
    async obstacle(signal: AbortSignal): Promise<string | undefined> {
      if (process.getuid?.() !== 0) return 'the gateway does not run as root, which its packet filter rules need';
      try {
        await runHostCommand(['iptables', '--wait', '-S', 'DOCKER-USER'], { signal });
      } catch {
        return 'iptables with the DOCKER-USER chain of the Docker daemon is missing on this host';
      }
      try {
        await makeBridge(signal);
        await filter.apply(signal);
        return (await filter.inForce(signal)) ? undefined : 'other packet filter rules of this host precede its own';
      } catch {
        return 'its packet filter rules cannot be applied on this host';
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
