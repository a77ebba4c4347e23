import { DrizzleQueryError } from 'drizzle-orm';
import pg from 'pg';
import { pino } from 'pino';
import { expect, test } from 'vitest';
import { CodeBoxError } from '#contract';
import { errorSerializers } from './error-log.ts';

test('the log contains the failed query and the reason, but none of its values', () => {
  const lines: string[] = [];
  const log = pino({ serializers: errorSerializers }, { write: (line) => void lines.push(line) });
  const refused = Object.assign(new pg.DatabaseError('null value in column "id"', 1, 'error'), {
    code: '23502',
    detail: 'Failing row contains (the secret question).',
  });
  const failed = new DrizzleQueryError('insert into "messages" values ($1)', ['the secret question'], refused);
  log.error({ err: failed }, 'could not save an answer');
  log.error({ err: new CodeBoxError('internal', 'Something went wrong.', { cause: failed }) }, 'request');
  expect(lines).toHaveLength(2);
  for (const line of lines) {
    expect(line).not.toContain('secret');
    expect(line).toContain('insert into \\"messages\\"');
    expect(line).toContain('null value in column');
  }
  expect(lines[1]).toContain('Something went wrong.');
});
