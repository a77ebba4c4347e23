import { expect, test } from 'vitest';
import { createStandIns } from '../../../test/model/stand-in.ts';
import { observeDriver } from './observed-driver.ts';

test('an observed driver has everything that its driver has', () => {
  const { driver } = createStandIns('/nowhere', () => 0);
  const whole = {
    ...driver,
    checkPlacement: () => {},
    changed: async () => {},
    watch: () => ({ [Symbol.dispose]() {} }),
  };
  expect(Object.keys(observeDriver(whole, () => {})).sort()).toEqual(Object.keys(whole).sort());
});
