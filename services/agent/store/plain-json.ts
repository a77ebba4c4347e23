import { toPlain } from '#contract';

/** Replaces what PostgreSQL cannot hold in any text of the value by U+FFFD: a model and a box may send anything. */
export const toPlainJson = <T>(value: T): T => toPlainValue(value) as T;

const toPlainValue = (value: unknown): unknown => {
  if (typeof value === 'string') return toPlain(value);
  if (Array.isArray(value)) return value.map(toPlainValue);
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([name, inner]) => [toPlain(name), toPlainValue(inner)]));
};
