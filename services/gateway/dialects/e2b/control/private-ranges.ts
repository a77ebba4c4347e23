import { BlockList, isIPv4 } from 'node:net';

/** The ranges that no sandbox reaches, whichever network it has and whichever driver runs it. */
const ranges = [
  ['0.0.0.0', 8],
  ['10.0.0.0', 8],
  ['100.64.0.0', 10],
  ['127.0.0.0', 8],
  ['169.254.0.0', 16],
  ['172.16.0.0', 12],
  ['192.0.0.0', 24],
  ['192.168.0.0', 16],
  ['198.18.0.0', 15],
  ['224.0.0.0', 4],
  ['240.0.0.0', 4],
] as const;

/** Whether an address, or a whole range in the form `10.0.0.0/8`, is one that no sandbox reaches anyway. */
export const isAlwaysDenied = (text: string): boolean => {
  const [address = '', bits = '32', ...rest] = text.split('/');
  if (!isIPv4(address) || !/^(?:\d|[12]\d|3[0-2])$/.test(bits) || rest.length > 0) return false;
  return ranges.some(([base, atLeast]) => {
    const range = new BlockList();
    range.addSubnet(base, atLeast);
    return Number(bits) >= atLeast && range.check(address);
  });
};
