import { expect, test } from 'vitest';
import { requireIsolation, unmetIsolation } from './posture.ts';

const all = { cpus: 'instance', memoryMb: 'instance', diskMb: 'instance', pids: 'node' } as const;
const closed = [{ name: 'python', network: 'none' as const }];

test('a driver that enforces everything may serve anywhere', () => {
  expect(unmetIsolation({ host: '0.0.0.0' }, { networks: ['none'], limits: all }, closed)).toEqual([]);
});

test('limits that are not enforced keep a gateway on loopback', () => {
  const weak = { networks: ['none' as const], limits: { ...all, memoryMb: false as const } };
  expect(unmetIsolation({ host: '127.0.0.1' }, weak, closed)).toEqual([]);
  expect(unmetIsolation({ host: '0.0.0.0' }, weak, closed).join()).toContain('memoryMb');
});

test('a template whose network is unavailable is refused', () => {
  const open = [{ name: 'web', network: 'internet' as const }];
  expect(unmetIsolation({ host: '127.0.0.1' }, { networks: ['none'], limits: all }, open).join()).toContain('web');
});

test('only CODEBOX_UNSAFE starts an unsafe gateway, with a warning for every weakness', () => {
  const warnings: string[] = [];
  expect(() => requireIsolation(['no limits'], false, () => {})).toThrow(/no limits[\s\S]*CODEBOX_UNSAFE/);
  requireIsolation(['no limits'], true, (text) => warnings.push(text));
  expect(warnings).toEqual(['UNSAFE: no limits']);
});
