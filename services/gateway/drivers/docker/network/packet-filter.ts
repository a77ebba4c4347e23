import { readFile } from 'node:fs/promises';
import { runHostCommand } from '../../host/host-command.ts';
import { refusedRanges } from '../../host/refused-ranges.ts';
import type { Endpoint } from '../../package-sources.ts';

/** Rejects at once, so that a program in a box does not wait for a timeout. */
const refuse = 'REJECT --reject-with icmp-port-unreachable';

export interface PacketFilterOptions {
  bridge: string;
  /** The name of the chain for packets to other hosts; that for packets to this host has the suffix `-HOST`. */
  chain: string;
  /** What is accepted although it is not public. */
  endpoints: readonly Endpoint[];
  /** Marks the rules for these endpoints: the deployments of a host share the chains. */
  deployment: string;
}

/**
 * Packet filter rules that restrict packets from a bridge to public addresses and the given endpoints. They come first in the daemon's
 * DOCKER-USER chain and in INPUT (for the host itself). For IPv6 everything is dropped.
 */
export const createPacketFilter = ({ bridge, chain, endpoints, deployment }: PacketFilterOptions) => {
  const hostChain = `${chain}-HOST`;
  const jumps: readonly (readonly [parent: string, target: string])[] = [
    ['DOCKER-USER', chain],
    ['INPUT', hostChain],
  ];
  const mark = `-m comment --comment ${deployment}`;
  const accepting = endpoints.flatMap(({ address, port }) => {
    const match = `-d ${address}/32 -p tcp -m tcp --dport ${port} ${mark}`;
    return [`-A ${chain} ${match} -j RETURN`, `-A ${hostChain} ${match} -j ACCEPT`];
  });
  const refusing = async () => [
    ...(await refusedRanges()).map((range) => `-A ${chain} -d ${range} -j ${refuse}`),
    `-A ${hostChain} -j ${refuse}`,
  ];
  /** The rules for endpoints of all deployments. */
  const marked = (lines: readonly string[]) =>
    lines.filter((line) => line.startsWith(`-A ${chain}`) && line.includes(' --comment '));
  const isOwn = (line: string) => line.includes(` ${mark} `);

  return {
    /** Installs the rules, each once. Throws `unavailable` without the permission to do so. */
    async apply(signal: AbortSignal): Promise<void> {
      const others = marked(await listRules(signal)).filter((line) => !isOwn(line));
      const chains = [chain, hostChain].map((name) => `:${name} - [0:0]`);
      const input = ['*filter', ...chains, ...others, ...accepting, ...(await refusing()), 'COMMIT\n'].join('\n');
      await runHostCommand(['iptables-restore', '--noflush', '--wait'], { signal, input });
      for (const [parent, target] of jumps) await putFirst('iptables', parent, bridge, target, signal);
      // Through the link-local address of the bridge, boxes could reach servers that listen on all addresses of the host.
      for (const parent of ['INPUT', 'FORWARD']) await putFirst('ip6tables', parent, bridge, 'DROP', signal);
    },
    /**
     * Reads the rules back; returns whether all are installed, none for an endpoint that is no longer accepted, and no foreign rule precedes
     * the jump to them.
     */
    async inForce(signal: AbortSignal): Promise<boolean> {
      const lines = await listRules(signal);
      const found = new Set(lines);
      const jump = (parent: string, target: string) => `-A ${parent} -i ${bridge} -j ${target}`;
      const firstOf = (parent: string) => lines.find((line) => line.startsWith(`-A ${parent} -i ${bridge} `));
      const above = lines.slice(0, lines.indexOf(jump('DOCKER-USER', chain)));
      return (
        (await bridgeIsFiltered()) &&
        jumps.every(([parent, target]) => firstOf(parent) === jump(parent, target)) &&
        [...(await refusing()), ...accepting].every((rule) => found.has(rule)) &&
        marked(lines).every((line) => !isOwn(line) || accepting.includes(line)) &&
        // A foreign rule before ours could accept packets of a box.
        above.every((line) => !line.startsWith('-A DOCKER-USER '))
      );
    },
  };
};

const listRules = async (signal: AbortSignal): Promise<string[]> =>
  (await runHostCommand(['iptables', '--wait', '-S'], { signal })).split('\n');

const putFirst = async (
  program: 'iptables' | 'ip6tables',
  parent: string,
  bridge: string,
  target: string,
  signal: AbortSignal,
): Promise<void> => {
  const rule = `-A ${parent} -i ${bridge} -j ${target}`;
  const lines = (await runHostCommand([program, '--wait', '-S', parent], { signal })).split('\n');
  if (lines.find((line) => line.startsWith('-A ')) === rule) return;
  // An existing rule is not removed first, because boxes may be running; a duplicate further down is harmless.
  await runHostCommand([program, '--wait', '-I', parent, '1', ...rule.split(' ').slice(2)], { signal });
};

/** Whether packets on bridges pass the rules: without this setting the kernel forwards frames between boxes past them. */
const bridgeIsFiltered = async (): Promise<boolean> => {
  const path = '/proc/sys/net/bridge/bridge-nf-call-iptables';
  return (await readFile(path, 'utf8').catch(() => '0')).trim() === '1';
};
