import { z } from 'zod';

const cell = z.union([z.string(), z.number(), z.boolean(), z.null()]);
const maxRows = 200_000;

/** A table as CSV text, as rows (objects with the same keys), or as columns. */
export const tableSchema = z
  .union(
    [
      z.string().min(1),
      z.array(z.record(z.string(), cell)).min(1).max(maxRows),
      z
        .record(z.string(), z.array(cell).max(maxRows))
        .refine((columns) => Object.keys(columns).length > 0, { message: 'must have a column' }),
    ],
    { error: 'must be CSV text, a list of rows, or lists of values by column' },
  )
  .meta({ id: 'Table' });

export type Table = z.infer<typeof tableSchema>;

/** The table as CSV: text as it came, all else with the columns in the order in which they first stand there. */
export const toCsv = (table: Table): string => {
  if (typeof table === 'string') return table;
  const names = Array.isArray(table) ? [...new Set(table.flatMap((row) => Object.keys(row)))] : Object.keys(table);
  const length = Array.isArray(table) ? table.length : Math.max(...Object.values(table).map(({ length }) => length));
  const valueAt = (name: string, row: number) => (Array.isArray(table) ? table[row]?.[name] : table[name]?.[row]);
  const rows = Array.from({ length }, (_, row) => names.map((name) => quoted(valueAt(name, row))).join(','));
  return `${[names.map(quoted).join(','), ...rows].join('\n')}\n`;
};

const quoted = (value: z.infer<typeof cell> | undefined): string => {
  const text = value === null || value === undefined ? '' : String(value);
  return /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
};
