import { expect, test } from 'vitest';
import { CodeBoxError } from '#contract';
import type { Instance, InstanceSpec } from '../../drivers/driver.ts';
import { createLaunch, type LaunchOptions } from './launch.ts';
import { readTemplates } from './templates.ts';

const startMs = 3000;
/** What attempts at the shortest pause would add up to. */
const steadyAttempts = startMs / 20;

test('a box server that takes long to start is asked less and less often, and is used once it responds', async () => {
  const instance: Instance = { id: 'one', state: 'running', address: 'unix:/one' };
  const beganMs = performance.now();
  let attempts = 0;
  const health = async () => {
    attempts += 1;
    if (performance.now() - beganMs < startMs) throw new CodeBoxError('unavailable', 'Nothing listens yet.');
  };
  const launch = createLaunch({
    driver: { create: async () => instance, inspect: async () => instance },
    connections: { tokenOf: () => 'token', to: () => ({ health }) } as unknown as LaunchOptions['connections'],
    languages: { revisionOf: async () => undefined, record: async () => {} },
    fill: async () => {},
  });
  const configured = { templatesFile: undefined, boxImage: 'image', fullImage: undefined, warmBoxes: 0 };
  const [template] = readTemplates(configured).values();
  if (template === undefined) throw new Error('there is no template');
  const spec: Pick<InstanceSpec, 'id' | 'limits' | 'network'> = { id: 'one', limits: template.limits, network: 'none' };

  const { address } = await launch(template, spec, AbortSignal.timeout(60_000), () => {});
  expect([address, performance.now() - beganMs >= startMs]).toEqual(['unix:/one', true]);
  expect(attempts).toBeLessThan(steadyAttempts * 0.75);
}, 60_000);
