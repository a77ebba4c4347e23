import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { featuresFile, featuresPage, readFeatures } from '../scripts/features.ts';
import { projectFolder } from '../scripts/project.ts';

/** Whether a file defines a test of this name, as a quoted title or as a function. */
const hasTest = (file: string, name: string): boolean => {
  const text = readFileSync(join(projectFolder, file), 'utf8');
  if (file.endsWith('.py')) return text.includes(`def ${name}(`);
  return [`'${name}'`, `"${name}"`, `${name}\``].some((quoted) =>
    text.split(quoted).some((behind, index) => index > 0 && /^,\s*(?:async )?\(/.test(behind)),
  );
};

test('every feature marked as supported names existing tests', () => {
  const named = readFeatures().flatMap((row) => (row.supported === 'no' ? [] : Object.entries(row.tests)));
  expect(named.length).toBeGreaterThan(50);
  const missing = named.flatMap(([file, names]) =>
    names.filter((name) => !hasTest(file, name)).map((name) => [file, name]),
  );
  expect(missing).toEqual([]);
  expect(hasTest('test/features.test.ts', 'a test that nobody has written')).toBe(false);
});

test('docs/features.md is up to date with test/features.yaml', () => {
  expect(readFileSync(featuresFile, 'utf8')).toBe(featuresPage(readFeatures()));
});
