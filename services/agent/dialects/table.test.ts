import { expect, test } from 'vitest';
import { tableSchema, toCsv } from './table.ts';

test('rows and columns become the same CSV, whatever stands in their cells', () => {
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

test('what is no table is refused', () => {
  for (const data of ['', [], {}, 7, [[1]], { a: 1 }, [{ a: { b: 1 } }]])
    expect(tableSchema.safeParse(data).success).toBe(false);
});
