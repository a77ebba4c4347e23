import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { featuresFile, featuresPage, readFeatures, titlesOf } from '../scripts/features.ts';

test('every feature marked as supported names existing tests', () => {
  const named = readFeatures().flatMap((row) => (row.supported === 'no' ? [] : Object.entries(row.tests)));
  expect(named.length).toBeGreaterThan(50);
  const missing = named.flatMap(([file, names]) =>
    names.filter((name) => titlesOf(file, name) === undefined).map((name) => [file, name]),
  );
  expect(missing).toEqual([]);
  expect(titlesOf('test/features.test.ts', 'a test that nobody has written')).toBeUndefined();
});

test('a test is named with the blocks around it, without what differs from one run to the next', () => {
  const cluster = 'that does not enforce network policies runs no code';
  expect(titlesOf('test/contract/kubernetes-faults.test.ts', cluster)).toEqual(['a cluster', cluster]);
  const own = 'runs as a user of its own';
  expect(titlesOf('test/contract/host.ts', own)).toEqual(['…, on this host', 'a box', own]);
  const files = 'range requests, ETags and conditions work';
  expect(titlesOf('test/api/files.test.ts', files)).toEqual(['files', files]);
  // The blocks before it have ended.
  const upToDate = 'docs/features.md is up to date with test/features.yaml';
  expect(titlesOf('test/features.test.ts', upToDate)).toEqual([upToDate]);
  const off = 'its paths do not exist';
  expect(titlesOf('test/dialects/e2b-rules.test.ts', off)).toEqual(['without the E2B dialect', off]);
  expect(featuresPage(readFeatures())).toContain(': a cluster > whose node is silent');
});

test('docs/features.md is up to date with test/features.yaml', () => {
  expect(readFileSync(featuresFile, 'utf8')).toBe(featuresPage(readFeatures()));
});
