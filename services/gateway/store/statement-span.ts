import { SpanKind } from '@opentelemetry/api';
import { inSpan } from '../tracing/span.ts';

const maxText = 2000;

/** Sends a statement within a span of the current request. Its text has placeholders in place of values. */
export const inStatement = <T>(statement: unknown, send: () => Promise<T>): Promise<T> =>
  inSpan(() => {
    const text = textOf(statement);
    const operation = /^\s*(\w+)/.exec(text)?.[1]?.toUpperCase() ?? 'QUERY';
    const table = /\b(?:from|into|update|table)\s+"?(\w+)"?/i.exec(text)?.[1];
    return {
      name: table === undefined ? operation : `${operation} ${table}`,
      kind: SpanKind.CLIENT,
      attributes: {
        'db.system.name': 'postgresql',
        'db.operation.name': operation,
        'db.query.text': text.slice(0, maxText),
      },
    };
  }, send);

const textOf = (statement: unknown): string => {
  if (typeof statement === 'string') return statement;
  const hasText = typeof statement === 'object' && statement !== null && 'text' in statement;
  return hasText ? String(statement.text) : '';
};
