import { DrizzleQueryError } from 'drizzle-orm';
import pg from 'pg';
import { stdSerializers } from 'pino';

const maxDepth = 8;

/** Returns a copy of the error without parameter values. */
const withoutValues = (error: unknown, depth = 0): unknown => {
  if (!(error instanceof Error) || depth > maxDepth) return error;
  const cause = withoutValues(error.cause, depth + 1);
  // Its message, its stack and a property contain every parameter.
  if (error instanceof DrizzleQueryError) return new Error(`Failed query: ${error.query}`, { cause });
  const isOfDatabase = error instanceof pg.DatabaseError;
  if (cause === error.cause && !isOfDatabase) return error;
  const copy: Error = Object.create(Object.getPrototypeOf(error), Object.getOwnPropertyDescriptors(error));
  if (cause !== undefined) Object.defineProperty(copy, 'cause', { value: cause, configurable: true });
  // `Failing row contains (…)`
  if (isOfDatabase) Object.assign(copy, { detail: undefined, where: undefined });
  return copy;
};

/** How errors are logged: as pino does, but without values that callers stored or queried. */
export const errorSerializers = { err: (error: Error) => stdSerializers.err(withoutValues(error) as Error) };
