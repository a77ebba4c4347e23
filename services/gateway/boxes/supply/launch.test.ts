import { expect, test } from 'vitest';
import { CodeBoxError } from '#contract';
import type { Instance, InstanceSpec } from '../../drivers/driver.ts';
import { createLaunch, type LaunchOptions } from './launch.ts';
import { readTemplates } from './templates.ts';

const startMs = 3000;
/** Attempts that fail later than this are followed by a pause of at least `lateGapMs`. */
const [lateMs, lateGapMs] = [2000, 45];

test('a box server that takes long to start is asked less and less often, and is used once it responds', async () => {
  const instance: Instance = { id: 'one', state: 'running', address: 'unix:/one' };
  const beganMs = performance.now();
  const attempts: number[] = [];
  const health = async () => {
    const afterMs = performance.now() - beganMs;
    attempts.push(afterMs);
    if (afterMs < startMs) throw new CodeBoxError('unavailable', 'Nothing listens yet.');
  };
  const launch = createLaunch({
    driver: { create: async () => instance, inspect: async () => instance, changed: () => new Promise(() => {}) },
    connections: { tokenOf: () => 'token', to: () => ({ health }) } as unknown as LaunchOptions['connections'],
    languages: { revisionOf: async () => undefined, record: async () => {} },
    fill: async () => {},
  });
  const configured = { templatesFile: undefined, boxImage: 'image', fullImage: undefined, warmBoxes: 0 };
  const [template] = readTemplates(configured).values();
  if (template === undefined) throw new Error('there is no template');
  const spec: Pick<InstanceSpec, 'id' | 'limits' | 'network'> = { id: 'one', limits: template.limits, network: 'none' };

  const { address } = await launch(template, spec, AbortSignal.timeout(60_000), () => {});
  const gaps = attempts.slice(1).map((at, n) => ({ from: attempts[n] ?? 0, ms: at - (attempts[n] ?? 0) }));
  const late = gaps.filter(({ from }) => from > lateMs);
  expect([address, late.length > 0]).toEqual(['unix:/one', true]);
  expect(Math.min(...late.map(({ ms }) => ms))).toBeGreaterThanOrEqual(lateGapMs);
}, 60_000);
