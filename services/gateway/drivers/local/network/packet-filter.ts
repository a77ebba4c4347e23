import { runHostCommand } from '../../host/host-command.ts';
import { refusedRanges } from '../../host/refused-ranges.ts';
import type { Endpoint } from '../../package-sources.ts';

/**
 * Packet filter rules in the network namespace of a box, where no process of the box may change them. They refuse every address that is not
 * public, except the given endpoints, so that a program does not wait for a timeout, and every packet from outside that does not belong to a
 * connection of the box.
 */
const rulesetOf = (ranges: readonly string[], endpoints: readonly Endpoint[]): string => {
  const accepted = endpoints.map(({ address, port }) => `ip daddr ${address} tcp dport ${port} accept`);
  return `
table inet codebox
delete table inet codebox
table inet codebox {
  set refused {
    type ipv4_addr
    flags interval
    auto-merge
    elements = { ${ranges.join(', ')} }
  }
  chain output {
    type filter hook output priority filter; policy accept;
    oif lo accept
    meta nfproto ipv6 reject with icmpv6 type port-unreachable
    ${accepted.join('\n    ')}
    ip daddr @refused reject with icmp type port-unreachable
  }
  chain input {
    type filter hook input priority filter; policy drop;
    iif lo accept
    ct state established,related accept
  }
  # pasta sends from the same port on the host: a box must not occupy those of services.
  chain postrouting {
    type nat hook postrouting priority srcnat; policy accept;
    oif != lo udp sport < 32768 masquerade to :32768-60999
  }
}
`;
};

/** The rules of now: they follow the addresses of this host. */
export const currentRules = async (endpoints: readonly Endpoint[]): Promise<string> =>
  rulesetOf(await refusedRanges(), endpoints);

/** Puts rules in force in the network namespace of a process, all at once. */
export const applyRules = async (pid: number, input: string, signal: AbortSignal): Promise<void> => {
  await runHostCommand(['nsenter', `--net=/proc/${pid}/ns/net`, 'nft', '--file', '-'], { signal, input });
};
