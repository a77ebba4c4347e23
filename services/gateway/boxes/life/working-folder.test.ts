import { expect, test } from 'vitest';
import { shownFolder } from './working-folder.ts';

test.each([
  ['', ''],
  ['.', ''],
  ['/mnt/data', ''],
  ['/mnt/data/', ''],
  ['sub/../sub/deep/', 'sub/deep'],
  ['/mnt/data/sub', 'sub'],
  ['/mnt/data-too', '/mnt/data-too'],
  ['../home', '/mnt/home'],
  ['/tmp', '/tmp'],
])('the folder %j is shown as %j', (folder, shown) => {
  expect(shownFolder(folder)).toBe(shown);
});
