/** Formats one value as a cell of a table. */
const toCell = (value: unknown): string => {
  if (value === null || value === undefined) return '-';
  if (Array.isArray(value)) return value.join(',');
  if (typeof value !== 'object') return String(value);
  const set = Object.entries(value).filter(([, part]) => part !== null);
  return set.length === 0 ? '-' : set.map(([name, part]) => `${name}=${toCell(part)}`).join(' ');
};

/** Joins cells to a line. Replaces control characters, because users choose the names and a terminal would act on them. */
const toLine = (cells: readonly string[], widths: readonly number[]): string =>
  cells
    .map((cell, index) => (index === cells.length - 1 ? cell : cell.padEnd(widths[index] ?? 0)))
    .join('  ')
    .replaceAll(/\p{Cc}/gu, '\ufffd');

/** Formats items as aligned columns with a header line. */
export const toTable = (items: readonly object[], columns: readonly string[]): string => {
  const rows = items.map((item) => columns.map((column) => toCell((item as Record<string, unknown>)[column])));
  const widths = columns.map((column, index) => Math.max(column.length, ...rows.map((row) => row[index]?.length ?? 0)));
  return [columns, ...rows].map((row) => `${toLine(row, widths)}\n`).join('');
};

/** Formats the fields of one object, one a line. */
export const toFields = (item: object): string => {
  const entries = Object.entries(item).map(([name, value]) => [name, toCell(value)] as const);
  const width = Math.max(...entries.map(([name]) => name.length));
  return entries.map((entry) => `${toLine(entry, [width])}\n`).join('');
};
