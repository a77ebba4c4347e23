import { readFile } from 'node:fs/promises';
import { networkInterfaces } from 'node:os';

/** Address ranges that are not public: private networks, other boxes, cloud metadata (also Azure's special address), multicast. */
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

/** Returns the IPv4 ranges that boxes with the network `internet` must not reach, among them this host and its neighbours as of now. */
export const refusedRanges = async (): Promise<string[]> => {
  const neighbours = [...(await connectedNetworks()), ...ownAddresses()].filter(
    (range) => !forbiddenRanges.some((wider) => covers(wider, range)),
  );
  return [...new Set([...forbiddenRanges, ...neighbours])];
};

/** Returns the networks that this host is connected to: boxes must not reach its neighbours, even those with public addresses. */
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

const ownAddresses = (): string[] =>
  Object.values(networkInterfaces()).flatMap((all = []) =>
    all.filter(({ family }) => family === 'IPv4').map(({ address }) => `${address}/32`),
  );

const covers = (wider: string, range: string): boolean => {
  const [base = '', bits = ''] = wider.split('/');
  const [inner = '', innerBits = ''] = range.split('/');
  const shift = 2 ** (32 - Number(bits));
  return (
    Number(innerBits) >= Number(bits) && Math.floor(toNumber(base) / shift) === Math.floor(toNumber(inner) / shift)
  );
};

const toNumber = (address: string): number => address.split('.').reduce((sum, byte) => sum * 256 + Number(byte), 0);
