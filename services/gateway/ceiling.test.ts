import { expect, test } from 'vitest';
import { readTemplates } from './boxes/supply/templates.ts';
import { below, readCeiling } from './ceiling.ts';

const GiB = 1024;
/** 1024 MiB by default, 8192 at most. */
const templates = readTemplates({ templatesFile: undefined, boxImage: 'image', fullImage: undefined, warmBoxes: 0 });
const read = (maxBoxes?: number, maxMemoryMb?: number, capacityGiB = 8) =>
  readCeiling({ maxBoxes, maxMemoryMb }, templates.values(), { memoryMb: capacityGiB * GiB });

test('the ceiling follows from the memory that the driver reports', () => {
  expect(read()).toEqual({ instances: 8, memoryMb: 8192 });
  expect(read(undefined, undefined, 0.5)).toEqual({ instances: 1, memoryMb: 1024 });
  expect(read(undefined, 4500)).toEqual({ instances: 4, memoryMb: 4500 });
});

test('a configured number of boxes raises the memory ceiling to their default size, and never lowers it', () => {
  expect(read(20)).toEqual({ instances: 20, memoryMb: 20_480 });
  expect(read(2)).toEqual({ instances: 2, memoryMb: 8192 });
  expect(read(20, 3000)).toEqual({ instances: 20, memoryMb: 3000 });
});

test('memory for less than one box is refused, and the limits of a box are capped by the ceiling', () => {
  expect(() => read(undefined, 1000)).toThrow('CODEBOX_MAX_MEMORY_MB: must be at least 1024');
  expect(below({ instances: 1, memoryMb: 3000 }, templates).get('python')?.maxLimits.memoryMb).toBe(3000);
  expect(below({ instances: 1, memoryMb: 9000 }, templates).get('python')?.maxLimits.memoryMb).toBe(8192);
});

test('a driver that reports no capacity requires a number of boxes or megabytes', () => {
  const readWithout = (maxBoxes?: number, maxMemoryMb?: number) =>
    readCeiling({ maxBoxes, maxMemoryMb }, templates.values(), undefined);
  expect(() => readWithout()).toThrow('CODEBOX_MAX_MEMORY_MB: is needed');
  expect(readWithout(3)).toEqual({ instances: 3, memoryMb: 3072 });
  expect(readWithout(undefined, 4500)).toEqual({ instances: 4, memoryMb: 4500 });
});
