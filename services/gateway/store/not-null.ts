/** Whether PostgreSQL refused a row because this column was null. */
export const isWithout = (column: string, error: unknown): boolean => {
  for (let one = error, depth = 0; one instanceof Error && depth < 5; one = one.cause, depth++)
    if ('code' in one && one.code === '23502' && 'column' in one && one.column === column) return true;
  return false;
};
