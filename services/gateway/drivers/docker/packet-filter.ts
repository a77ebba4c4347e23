import { readFile } from 'node:fs/promises';
import { runHostCommand } from '../host/host-command.ts';

/** Not the public internet: private networks, other boxes, cloud metadata (Azure's has an address of its own), multicast. */
const forbiddenRanges = [
  '0.0.0.0/8',
  '10.0.0.0/8',
  '100.64.0.0/10',
  '127.0.0.0/8',
  '168.63.129.16/32',
  '169.254.0.0/16',
  '172.16.0.0/12',
  '192.0.0.0/24',
  '192.168.0.0/16',
  '198.18.0.0/15',
  '224.0.0.0/4',
  '240.0.0.0/4',
];

/** An answer at once, so that a program in a box does not wait for a timeout. */
const refuse = 'REJECT --reject-with icmp-port-unreachable';

/**
 * Packet filter rules that let what comes in over a bridge reach public addresses only. They stand first in the daemon's
 * DOCKER-USER chain and in INPUT (the host itself), and hold for IPv6 as well, where everything is dropped.
 */
export const createPacketFilter = ({ bridge, chain }: { bridge: string; chain: string }) => {
  const jumps: readonly (readonly [parent: string, target: string])[] = [
    ['DOCKER-USER', chain],
    ['INPUT', refuse],
  ];
  const rules = async () => {
    const neighbours = (await connectedNetworks()).filter(
      (range) => !forbiddenRanges.some((wider) => covers(wider, range)),
    );
    return [...new Set([...forbiddenRanges, ...neighbours])].map((range) => `-A ${chain} -d ${range} -j ${refuse}`);
  };

  return {
    /** Puts the rules in, each once. Throws `unavailable` without the right to do so. */
    async apply(signal: AbortSignal): Promise<void> {
      const input = `*filter\n:${chain} - [0:0]\n${(await rules()).join('\n')}\nCOMMIT\n`;
      await runHostCommand(['iptables-restore', '--noflush', '--wait'], { signal, input });
      for (const [parent, target] of jumps) await putFirst('iptables', parent, bridge, target, signal);
      // The bridge has a link-local address, which reaches whatever listens on all addresses of the host.
      for (const parent of ['INPUT', 'FORWARD']) await putFirst('ip6tables', parent, bridge, 'DROP', signal);
    },
    /** Reads the rules back: whether all are there, and none of another hand stands above the jump to ours. */
    async inForce(signal: AbortSignal): Promise<boolean> {
      const lines = (await runHostCommand(['iptables', '--wait', '-S'], { signal })).split('\n');
      const found = new Set(lines);
      const jump = (parent: string, target: string) => `-A ${parent} -i ${bridge} -j ${target}`;
      const above = lines.slice(0, lines.indexOf(jump('DOCKER-USER', chain)));
      return (
        (await bridgeIsFiltered()) &&
        jumps.every(([parent, target]) => found.has(jump(parent, target))) &&
        (await rules()).every((rule) => found.has(rule)) &&
        // Anything above ours could let a box pass.
        above.every((line) => !line.startsWith('-A DOCKER-USER '))
      );
    },
  };
};

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
  // Never taken out first: boxes may be running. A second one of the same further down does no harm.
  await runHostCommand([program, '--wait', '-I', parent, '1', ...rule.split(' ').slice(2)], { signal });
};

/** Without this the kernel passes frames from box to box by itself, past every rule. */
const bridgeIsFiltered = async (): Promise<boolean> => {
  const path = '/proc/sys/net/bridge/bridge-nf-call-iptables';
  return (await readFile(path, 'utf8').catch(() => '0')).trim() === '1';
};

/** The networks that this host is part of: its neighbours are none of a box's business, public addresses or not. */
const connectedNetworks = async (): Promise<string[]> => {
  const lines = (await readFile('/proc/net/route', 'utf8')).trim().split('\n').slice(1);
  return lines.flatMap((line) => {
    const [, destination = '', gateway, , , , , mask = ''] = line.split('\t');
    if (gateway !== '00000000' || mask === '00000000') return [];
    const bits = [...BigInt(`0x${mask}`).toString(2)].filter((bit) => bit === '1').length;
    // The kernel prints addresses as little-endian words.
    const bytes = (destination.match(/../g) ?? []).map((byte) => Number.parseInt(byte, 16)).reverse();
    return [`${bytes.join('.')}/${bits}`];
  });
};

const covers = (wider: string, range: string): boolean => {
  const [base = '', bits = ''] = wider.split('/');
  const [inner = '', innerBits = ''] = range.split('/');
  const shift = 2 ** (32 - Number(bits));
  return (
    Number(innerBits) >= Number(bits) && Math.floor(toNumber(base) / shift) === Math.floor(toNumber(inner) / shift)
  );
};

const toNumber = (address: string): number => address.split('.').reduce((sum, byte) => sum * 256 + Number(byte), 0);
