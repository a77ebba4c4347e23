import { expect, test } from 'vitest';
import { warmNetworkOf } from './built-templates.ts';

test('warm instances of templates of tenants have no network before they are claimed, where it can be changed then', () => {
  const [both, fixed] = [['none', 'internet'] as const, [] as const];
  const archive = { box: 'box', blob: 'blob' };
  const of = (template: { archive?: typeof archive }, networks: readonly ('none' | 'internet')[]) =>
    warmNetworkOf(
      { network: 'internet', ...template },
      { networks: both, bind: { limits: [], networks, volumes: false } },
    );
  expect(of({ archive }, both)).toBe('none');
  expect(of({ archive }, ['none'])).toBe('internet');
  expect(of({ archive }, fixed)).toBe('internet');
  expect(of({}, both)).toBe('internet');
});
