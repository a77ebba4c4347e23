import type { Context } from 'hono';
import { expect, test } from 'vitest';
import type { Env } from '../env.ts';
import { createAddressOf } from './address.ts';

const requestFrom = (remoteAddress: string, forwarded?: string) =>
  ({
    env: { incoming: { socket: { remoteAddress } } },
    req: { header: () => forwarded },
  }) as unknown as Context<Env>;

test('without a trusted proxy the forwarded header is ignored', () => {
  const addressOf = createAddressOf([]);
  expect(addressOf(requestFrom('192.0.2.1', '203.0.113.9'))).toBe('192.0.2.1');
  expect(addressOf(requestFrom('::ffff:192.0.2.1'))).toBe('192.0.2.1');
});

test('addresses of one IPv6 network count as one', () => {
  const addressOf = createAddressOf([]);
  expect(addressOf(requestFrom('2001:db8:1:2:aaaa::1'))).toBe(addressOf(requestFrom('2001:db8:1:2::ffff')));
  expect(addressOf(requestFrom('2001:db8:1:3::1'))).not.toBe(addressOf(requestFrom('2001:db8:1:2::1')));
  expect(addressOf(requestFrom('::1'))).toBe('0:0:0:0');
});

test('the client is the last forwarded address that is no trusted proxy', () => {
  const addressOf = createAddressOf(['10.0.0.0/8', 'fd00::/8']);
  expect(addressOf(requestFrom('10.0.0.1', '198.51.100.1, 203.0.113.9, 10.2.3.4'))).toBe('203.0.113.9');
  expect(addressOf(requestFrom('fd00::1', '203.0.113.9'))).toBe('203.0.113.9');
  expect(addressOf(requestFrom('10.0.0.1', 'not-an-address'))).toBe('10.0.0.1');
  expect(addressOf(requestFrom('10.0.0.1'))).toBe('10.0.0.1');
  expect(addressOf(requestFrom('203.0.113.1', '198.51.100.1'))).toBe('203.0.113.1');
});
