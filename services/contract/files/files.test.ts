import fc from 'fast-check';
import { expect, test } from 'vitest';
import { boxPathSchema, inlineFileSchema, newPathSchema, newUrlPathSchema } from './files.ts';

const accepts = (path: string) => boxPathSchema.safeParse(path).success;

test.each(['a', 'a/b.txt', '..a', 'a..', '...', 'über/文件 1.txt', 'a\\b', '%2e%2e'])('%j is a valid path', (path) => {
  expect(accepts(path)).toBe(true);
});

test.each(['', '/', '/a', 'a/', 'a//b', '.', '..', 'a/..', '../a', 'a/./b', 'a\0b', 'a'.repeat(4097)])(
  '%j is not a valid path',
  (path) => {
    expect(accepts(path)).toBe(false);
  },
);

test.each(['mnt/data', 'mnt/data/x', 'mnt/data/mnt/data/x'])(
  '%j is valid for reading and refused for new files',
  (path) => {
    expect(accepts(path)).toBe(true);
    for (const schema of [newPathSchema, newUrlPathSchema]) expect(schema.safeParse(path).success).toBe(false);
    expect(inlineFileSchema.safeParse({ path, text: '' }).success).toBe(false);
    expect(newPathSchema.safeParse('mnt/database').success).toBe(true);
  },
);

test('no accepted path leaves the folder it is resolved in', () => {
  const piece = fc.oneof(fc.constantFrom('..', '.', '', '/', 'a', '\0', '...'), fc.string({ maxLength: 5 }));
  fc.assert(
    fc.property(fc.array(piece, { maxLength: 8 }), (pieces) => {
      const path = pieces.join('/');
      if (!accepts(path)) return;
      const resolved = new URL(`file:///mnt/data/${path.split('/').map(encodeURIComponent).join('/')}`).pathname;
      expect(resolved.startsWith('/mnt/data/')).toBe(true);
      expect(resolved.split('/')).toHaveLength(3 + path.split('/').length);
    }),
    { numRuns: 2000 },
  );
});
