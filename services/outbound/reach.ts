import { BlockList, isIP } from 'node:net';

/** IPv4 networks of the IANA registry of special addresses, and Azure's address for its virtual machines. */
const special4 = [
  ['0.0.0.0', 8],
  ['10.0.0.0', 8],
  ['100.64.0.0', 10],
  ['127.0.0.0', 8],
  ['168.63.129.16', 32],
  ['169.254.0.0', 16],
  ['172.16.0.0', 12],
  ['192.0.0.0', 24],
  ['192.0.2.0', 24],
  ['192.88.99.0', 24],
  ['192.168.0.0', 16],
  ['198.18.0.0', 15],
  ['198.51.100.0', 24],
  ['203.0.113.0', 24],
  ['224.0.0.0', 3],
] as const;

/** The IPv6 networks that are assigned to hosts of the internet, and those among them that are not, or contain an IPv4 address. */
const global6 = ['2000::', 3] as const;
const special6 = [
  ['2001::', 23],
  ['2001:db8::', 32],
  ['2002::', 16],
  ['3fff::', 20],
] as const;

const blocked4 = new BlockList();
for (const [net, bits] of special4) blocked4.addSubnet(net, bits, 'ipv4');
const assigned6 = new BlockList();
assigned6.addSubnet(...global6, 'ipv6');
const blocked6 = new BlockList();
for (const [net, bits] of special6) blocked6.addSubnet(net, bits, 'ipv6');

const isPublic = (address: string): boolean =>
  isIP(address) === 4
    ? !blocked4.check(address, 'ipv4')
    : assigned6.check(address, 'ipv6') && !blocked6.check(address, 'ipv6');

/**
 * Tenants reach hosts of the internet by TLS, and in addition the networks that the operator allows, such as `10.1.0.0/16`, also without
 * TLS. IPv6 forms that contain an IPv4 address count as no host of the internet.
 */
export const createReach = (allowed: readonly string[]) => {
  const permitted = new BlockList();
  for (const network of allowed) {
    const [address = '', bits] = network.split('/');
    const family = isIP(address) === 4 ? 'ipv4' : 'ipv6';
    permitted.addSubnet(address, Number(bits ?? (family === 'ipv4' ? 32 : 128)), family);
  }

  return {
    /** Whether a connection to this address may be made. */
    permits(address: string, protocol: string): boolean {
      const family = isIP(address);
      if (family === 0) return false;
      // A mapped IPv4 address is judged as IPv6, so it is not permitted through an IPv4 network either.
      if (!/^::ffff:/i.test(address) && permitted.check(address, family === 4 ? 'ipv4' : 'ipv6')) return true;
      return protocol === 'https:' && isPublic(address);
    },
  };
};
