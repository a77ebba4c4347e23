import { toPlain } from '#contract';

/** Replaces characters that PostgreSQL cannot hold by U+FFFD, in every text of the value: models and boxes may send anything. */
export const toPlainJson = <T>(value: T): T => toPlainValue(value) as T;

const toPlainValue = (value: unknown): unknown => {
  if (typeof value === 'string') return toPlain(value);
  if (Array.isArray(value)) return value.map(toPlainValue);
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([name, inner]) => [toPlain(name), toPlainValue(inner)]));
};
