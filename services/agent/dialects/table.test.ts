import { expect, test } from 'vitest';
import { z } from 'zod';
import { tableSchema, toCsv } from './table.ts';

test('rows and columns become the same CSV, whatever their cells contain', () => {
  const rows = [
    { city: 'Köln, "Dom"', n: 1 },
    { city: 'a\nb', n: null, more: true },
  ];
  const columns = { city: ['Köln, "Dom"', 'a\nb'], n: [1, null], more: ['', true] };
  const csv = 'city,n,more\n"Köln, ""Dom""",1,\n"a\nb",,true\n';
  expect(toCsv(tableSchema.parse(rows))).toBe(csv);
  expect(toCsv(tableSchema.parse(columns))).toBe(csv);
  expect(toCsv('a;b\n')).toBe('a;b\n');
});

test('a value that is not a table is refused', () => {
  for (const data of ['', [], {}, 7, [[1]], { a: 1 }, [{ a: { b: 1 } }]])
    expect(tableSchema.safeParse(data).success).toBe(false);
});

test('a small body that would expand to a huge table is refused with a pointer to it', () => {
  const raggedRows = Array.from({ length: 3000 }, (_, n) => ({ [`k${n}`]: 1 }));
  const raggedColumns = { long: Array(200_000).fill(1), ...Object.fromEntries(raggedRows.map((_, n) => [n, []])) };
  const wide = Object.fromEntries(Array.from({ length: 10_001 }, (_, n) => [n, []]));
  for (const [data, detail] of [
    [raggedRows, /at most 400000 cells/],
    [raggedColumns, /at most 400000 cells/],
    [wide, /at most 10000 columns/],
  ] as const)
    expect(z.object({ data: tableSchema }).safeParse({ data }).error?.issues).toMatchObject([
      { path: ['data'], message: expect.stringMatching(detail) },
    ]);
  const row = Object.fromEntries(Array.from({ length: 10_000 }, (_, n) => [n, 1]));
  expect(tableSchema.safeParse([row]).success).toBe(true);
});
