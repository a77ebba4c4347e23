import { BlockList, isIP } from 'node:net';
import type { Context } from 'hono';
import type { Env } from '../env.ts';

/** Returns the address under which a client is counted: an IPv4 address, or the /64 network of an IPv6 address. */
export type AddressOf = (c: Context<Env>) => string;

const plain = (address: string): string => address.trim().replace(/^::ffff:(?=\d+\.)/i, '');

/** The first four groups of an IPv6 address: providers give each customer a /64. */
const network = (address: string): string => {
  if (isIP(address) !== 6) return address;
  const [head = '', tail] = address.split('%')[0]?.split('::') ?? [];
  const left = head.split(':').filter((group) => group !== '');
  const right = (tail ?? '').split(':').filter((group) => group !== '');
  const zeros = tail === undefined ? 0 : 8 - left.length - right.length;
  return [...left, ...Array.from({ length: Math.max(0, zeros) }, () => '0'), ...right].slice(0, 4).join(':');
};

/** Parses addresses and networks such as `10.0.0.0/8`. Throws for anything else. */
const toBlockList = (networks: readonly string[]): BlockList => {
  const list = new BlockList();
  for (const text of networks) {
    const [address = '', bits] = text.split('/');
    const family = isIP(address) === 6 ? 'ipv6' : 'ipv4';
    if (bits === undefined) list.addAddress(address, family);
    else list.addSubnet(address, Number(bits), family);
  }
  return list;
};

/**
 * Determines the client address: the peer, or behind `trusted` proxies the last address in `X-Forwarded-For` that is not a proxy's.
 * Addresses before that one could be forged, so they are ignored.
 */
export const createAddressOf = (trusted: readonly string[]): AddressOf => {
  const proxies = toBlockList(trusted);
  const isProxy = (address: string) =>
    isIP(address) !== 0 && proxies.check(address, isIP(address) === 6 ? 'ipv6' : 'ipv4');
  return (c) => {
    const peer = plain(c.env?.incoming?.socket.remoteAddress ?? '');
    if (!isProxy(peer)) return network(peer);
    const forwarded = (c.req.header('x-forwarded-for') ?? '').split(',').map(plain).reverse();
    const client = forwarded.find((address) => !isProxy(address));
    return network(client !== undefined && isIP(client) !== 0 ? client : peer);
  };
};
