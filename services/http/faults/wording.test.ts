import { expect, test } from 'vitest';
import { z } from 'zod';
import { createBoxSchema, createExecutionSchema, pageQuerySchema } from '#contract';
import { wording } from './wording.ts';

const details = (schema: z.ZodType, value: unknown): string[] =>
  schema.safeParse(value, { error: wording }).error?.issues.map(({ message }) => message) ?? [];

test.each<[z.ZodType, unknown, string]>([
  [createExecutionSchema, {}, 'is required'],
  [createExecutionSchema, { code: 5 }, 'must be a string'],
  [createExecutionSchema, { code: '1', detach: 1 }, 'must be true or false'],
  [createExecutionSchema, { code: '1', timeoutSeconds: '5' }, 'must be a number'],
  [createExecutionSchema, { code: '1', timeoutSeconds: 0 }, 'must be at least 0.1'],
  [createExecutionSchema, 'text', 'must be an object'],
  [createBoxSchema, { idleSeconds: 1.5 }, 'must be a whole number'],
  [createBoxSchema, { user: '' }, 'must have at least 1 character'],
  [createBoxSchema, { files: {} }, 'must be a list'],
  [createBoxSchema, { network: 'all' }, 'must be one of "none", "internet"'],
  [createBoxSchema, { env: { 'A=B': '' } }, 'must be a name of letters, digits and _'],
  [createBoxSchema, { packages: [] }, 'must have at least 1 item'],
  [pageQuerySchema, { limit: 'abc' }, 'must be a whole number'],
  [pageQuerySchema, { limit: '1.5' }, 'must be a whole number'],
  [pageQuerySchema, { limit: '1001' }, 'must be at most 1000'],
  [z.union([z.literal(1), z.object({})]), 'x', 'has none of the forms that are allowed here'],
  [z.base64(), '%', 'must be base64'],
])('%o reports %j as: %s', (schema, value, detail) => {
  expect(details(schema, value)).toContain(detail);
});

test('every detail reads as a continuation of its pointer', () => {
  const bad = { template: 5, limits: { cpus: 'x' }, metadata: { a: 1 }, env: 5, files: [{ path: 'x' }], reuse: 'yes' };
  for (const detail of details(createBoxSchema, bad)) expect(detail).toMatch(/^(is|must|has) /);
});
