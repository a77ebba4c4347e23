import { readFile } from 'node:fs/promises';
import { runHostCommand } from '../../host/host-command.ts';
import { refusedRanges } from '../../host/refused-ranges.ts';

/** Rejects at once, so that a program in a box does not wait for a timeout. */
const refuse = 'REJECT --reject-with icmp-port-unreachable';

/**
 * Packet filter rules that restrict packets from a bridge to public addresses. They come first in the daemon's DOCKER-USER chain and in INPUT
 * (for the host itself). For IPv6 everything is dropped.
 */
export const createPacketFilter = ({ bridge, chain }: { bridge: string; chain: string }) => {
  const jumps: readonly (readonly [parent: string, target: string])[] = [
    ['DOCKER-USER', chain],
    ['INPUT', refuse],
  ];
  const rules = async () => (await refusedRanges()).map((range) => `-A ${chain} -d ${range} -j ${refuse}`);

  return {
    /** Installs the rules, each once. Throws `unavailable` without the permission to do so. */
    async apply(signal: AbortSignal): Promise<void> {
      const input = `*filter\n:${chain} - [0:0]\n${(await rules()).join('\n')}\nCOMMIT\n`;
      await runHostCommand(['iptables-restore', '--noflush', '--wait'], { signal, input });
      for (const [parent, target] of jumps) await putFirst('iptables', parent, bridge, target, signal);
      // Through the link-local address of the bridge, boxes could reach servers that listen on all addresses of the host.
      for (const parent of ['INPUT', 'FORWARD']) await putFirst('ip6tables', parent, bridge, 'DROP', signal);
    },
    /** Reads the rules back; returns whether all are installed and no foreign rule precedes the jump to them. */
    async inForce(signal: AbortSignal): Promise<boolean> {
      const lines = (await runHostCommand(['iptables', '--wait', '-S'], { signal })).split('\n');
      const found = new Set(lines);
      const jump = (parent: string, target: string) => `-A ${parent} -i ${bridge} -j ${target}`;
      const above = lines.slice(0, lines.indexOf(jump('DOCKER-USER', chain)));
      return (
        (await bridgeIsFiltered()) &&
        jumps.every(([parent, target]) => found.has(jump(parent, target))) &&
        (await rules()).every((rule) => found.has(rule)) &&
        // A foreign rule before ours could accept packets of a box.
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
  // An existing rule is not removed first, because boxes may be running; a duplicate further down is harmless.
  await runHostCommand([program, '--wait', '-I', parent, '1', ...rule.split(' ').slice(2)], { signal });
};

/** Whether packets on bridges pass the rules: without this setting the kernel forwards frames between boxes past them. */
const bridgeIsFiltered = async (): Promise<boolean> => {
  const path = '/proc/sys/net/bridge/bridge-nf-call-iptables';
  return (await readFile(path, 'utf8').catch(() => '0')).trim() === '1';
};
