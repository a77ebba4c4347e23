import { expect, test } from 'vitest';
import { commandDoneSchema, contextSchema, executionDoneSchema, executionEventSchema } from '../index.ts';

const none = { created: [], modified: [], deleted: [] };
const done = { seq: 2, type: 'done', status: 'ok', durationMs: 1, stateLost: false, files: none };
const started = { seq: 1, type: 'started', context: 'a', language: 'python' };

test.each([
  { durationMs: 1e300 },
  { durationMs: -1 },
  { queuedMs: 1e300 },
  { cpuMs: -1 },
  { peakMemoryBytes: 2 ** 60 },
  { executionCount: -1 },
  { seq: 2 ** 60 },
  { status: 'fine' },
  { cause: { code: 'exit', detail: '', exitCode: 2 ** 40 } },
])('an end with %j is refused', (wrong) => {
  expect(executionDoneSchema.safeParse(done).success).toBe(true);
  expect(executionDoneSchema.safeParse({ ...done, ...wrong }).success).toBe(false);
});

test.each([
  { language: 'Python' },
  { language: `a${'b'.repeat(32)}` },
  { language: 'a\n' },
  { context: 'a'.repeat(65) },
])('a start with %j is refused', (wrong) => {
  expect(executionEventSchema.safeParse(started).success).toBe(true);
  expect(executionEventSchema.safeParse({ ...started, ...wrong }).success).toBe(false);
  const at = '2026-01-01T00:00:00Z';
  const context = { id: 'a', language: 'python', default: true, state: 'idle', createdAt: at, lastActivityAt: at };
  const renamed = { ...wrong, ...(wrong.context && { id: wrong.context }) };
  expect(contextSchema.safeParse({ ...context, ...renamed }).success).toBe(false);
});

test('the texts of an end are sanitized so that PostgreSQL can store them', () => {
  const bad = 'a\0b\ud800';
  const good = 'a\ufffdb\ufffd';
  const files = { created: [bad], modified: [bad], deleted: [bad] };
  const cause = { code: bad, detail: bad.repeat(10_000), signal: bad };
  const parsed = executionDoneSchema.parse({ ...done, cause, files, more: bad });
  expect(parsed.files).toEqual({ created: [good], modified: [good], deleted: [good] });
  expect(parsed.cause).toMatchObject({ code: good, signal: good });
  expect(parsed.cause?.detail).toHaveLength(2000);
  expect(JSON.stringify(parsed)).not.toMatch(/\\u0000|\\ud800/);
  const command = commandDoneSchema.parse({ ...done, exitCode: null, signal: bad });
  expect(command.signal).toBe(good);
});

test('an end lists at most 1000 changed files, and is marked incomplete if there were more', () => {
  const names = (count: number) => Array.from({ length: count }, (_, i) => `f${i}`);
  const files = { created: names(600), modified: names(600), deleted: names(600) };
  const bound = executionDoneSchema.parse({ ...done, files }).files;
  expect([bound?.created.length, bound?.modified.length, bound?.deleted.length]).toEqual([600, 400, 0]);
  expect(bound?.complete).toBe(false);
  const all = { ...none, created: names(1000) };
  expect(executionDoneSchema.parse({ ...done, files: all }).files).toEqual(all);
  const long = executionDoneSchema.parse({ ...done, files: { ...none, created: ['a'.repeat(5000)] } }).files;
  expect(long).toEqual({ ...none, complete: false });
});

test('the fields and frames of an error are bounded', () => {
  const error = { seq: 1, type: 'error', name: 'E', value: 'v', traceback: ['t'] };
  expect(executionEventSchema.safeParse(error).success).toBe(true);
  const wrongs = [
    { name: 'a'.repeat(70_000) },
    { traceback: ['a'.repeat(1_100_000)] },
    { traceback: Array.from({ length: 20_001 }, () => '') },
  ];
  for (const wrong of wrongs) expect(executionEventSchema.safeParse({ ...error, ...wrong }).success).toBe(false);
});

test('a hint that is not known is dropped, and what it belongs to remains', () => {
  const event = { seq: 1, type: 'error', name: 'OSError', value: '', traceback: [] };
  const known = { code: 'missing_library', library: 'libpango-1.0-0', detail: 'It is missing.' };
  expect(executionEventSchema.parse({ ...event, hint: known })).toEqual({ ...event, hint: known });
  expect(executionEventSchema.parse({ ...event, hint: { code: 'of_a_later_version' } })).toEqual(event);
  expect(executionEventSchema.safeParse({ ...event, hint: null }).success).toBe(false);
});
