import { expect, test } from 'vitest';
import { toModelError, withoutKeys } from './failures.ts';

const key = 'sk-ant-0123456789abcdef';
const explain = (thrown: unknown, wasOpen = false) => toModelError(thrown, { model: 'openai/x', key, wasOpen });

const failure = (more: Record<string, unknown>) => Object.assign(new Error(String(more.message ?? '')), more);

test.each([
  [{ status: 401 }, 'unauthorized'],
  [{ status: 403 }, 'unauthorized'],
  [{ status: 404 }, 'invalid_request'],
  [{ status: 400, code: 'context_length_exceeded' }, 'too_large'],
  [{ status: 413 }, 'too_large'],
  [{ status: 429 }, 'too_many_requests'],
  [{ status: 500 }, 'unavailable'],
  [{ status: 529 }, 'unavailable'],
  [{ type: 'overloaded_error' }, 'unavailable'],
  [{ type: 'rate_limit_error' }, 'too_many_requests'],
  [{}, 'unavailable'],
])('%o is %s', (more, code) => {
  expect(explain(failure(more)).code).toBe(code);
});

test('a failure after the answer has begun is a broken answer', () => {
  expect(explain(new TypeError('terminated'), true).code).toBe('bad_gateway');
});

test.each([
  ['7', 7],
  ['0.5', 0.5],
  ['soon', undefined],
])('Retry-After %s is %s seconds', (text, seconds) => {
  const headers = new Headers({ 'retry-after': text });
  expect(explain(failure({ status: 429, headers })).retryAfterSeconds).toBe(seconds);
});

test('neither a message nor its cause contains a key', () => {
  for (const status of [400, 401, 429, 500, undefined]) {
    const error = explain(failure({ status, message: `bad ${key} and sk-proj-abcdefghij` }));
    expect(`${error.message} ${String(error.cause)}`).not.toMatch(/0123456789|abcdefghij/);
  }
  expect(withoutKeys('my own key', 'my own key')).toBe('***');
});
