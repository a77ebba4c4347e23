import { z } from 'zod';

const cell = z.union([z.string(), z.number(), z.boolean(), z.null()]);
const maxRows = 200_000;
const maxColumns = 10_000;
/** Rows with different keys, and columns of unequal length, are padded: a small body may expand to a huge table. */
const maxCells = 400_000;

const isCell = (value: unknown): boolean =>
  value === null || typeof value === 'string' || typeof value === 'number' || typeof value === 'boolean';
const isObject = (value: unknown): value is object =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

/** Checked first: for a table with a fault in every cell, the schema would collect them all. */
const isTable = (value: unknown): boolean => {
  if (typeof value === 'string') return true;
  if (Array.isArray(value)) return value.every((row) => isObject(row) && Object.values(row).every(isCell));
  return isObject(value) && Object.values(value).every((column) => Array.isArray(column) && column.every(isCell));
};

/**
 * A table as CSV text, as rows (objects with the same keys), or as columns, with a bounded number of columns and cells.
 */
export const tableSchema = z
  .preprocess(
    (value) => (isTable(value) ? value : null),
    z.union(
      [
        z.string().min(1),
        z.array(z.record(z.string(), cell)).min(1).max(maxRows),
        z
          .record(z.string(), z.array(cell).max(maxRows))
          .refine((columns) => Object.keys(columns).length > 0, { message: 'must have a column' }),
      ],
      { error: 'must be CSV text, a list of rows, or lists of values by column' },
    ),
  )
  .superRefine((table, { addIssue }) => {
    if (typeof table === 'string') return;
    const columns = namesOf(table).size;
    if (columns > maxColumns) addIssue({ code: 'custom', message: `must have at most ${maxColumns} columns` });
    else if (columns * lengthOf(table) > maxCells)
      addIssue({
        code: 'custom',
        message: `must have at most ${maxCells} cells, including padding of short rows and columns`,
      });
  })
  .meta({ id: 'Table' });

export type Table = z.infer<typeof tableSchema>;

type Cells = Exclude<Table, string>;

const namesOf = (table: Cells): Set<string> =>
  new Set(Array.isArray(table) ? table.flatMap((row) => Object.keys(row)) : Object.keys(table));

const lengthOf = (table: Cells): number =>
  Array.isArray(table) ? table.length : Object.values(table).reduce((most, { length }) => Math.max(most, length), 0);

/** The table as CSV: text stays unchanged; otherwise columns are in order of first appearance. */
export const toCsv = (table: Table): string => {
  if (typeof table === 'string') return table;
  const names = [...namesOf(table)];
  const valueAt = (name: string, row: number) => (Array.isArray(table) ? table[row]?.[name] : table[name]?.[row]);
  const rows = Array.from({ length: lengthOf(table) }, (_, row) =>
    names.map((name) => quoted(valueAt(name, row))).join(','),
  );
  return `${[names.map(quoted).join(','), ...rows].join('\n')}\n`;
};

const quoted = (value: z.infer<typeof cell> | undefined): string => {
  const text = value === null || value === undefined ? '' : String(value);
  return /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
};
