import { expect, test } from 'vitest';
import type { z } from 'zod';
import {
  createBoxSchema,
  createCommandSchema,
  createExecutionSchema,
  createRunSchema,
  fileOperationSchema,
  pageQuerySchema,
  updateTenantSchema,
} from '#contract';
import { checkInput } from '../endpoints/endpoint.ts';

const refusal = (schema: z.ZodType, value: unknown): unknown => {
  try {
    return checkInput(schema, value, '');
  } catch (error) {
    return (error as { errors: unknown }).errors;
  }
};

test.each<[z.ZodType, object, string, string]>([
  [createExecutionSchema, { code: '1', timeout: 10 }, '/timeout', 'timeoutSeconds'],
  [createExecutionSchema, { code: '1', lang: 'js' }, '/lang', 'language'],
  [createExecutionSchema, { code: '1', background: true }, '/background', 'detach'],
  [createRunSchema, { code: '1', environment: {} }, '/environment', 'env'],
  [createCommandSchema, { command: 'ls', workdir: 'x' }, '/workdir', 'cwd'],
  [createBoxSchema, { limits: { memory: 512 } }, '/limits/memory', 'memoryMb'],
  [createBoxSchema, { files: [{ path: 'x', content: '' }] }, '/files/0/content', 'text'],
  [createBoxSchema, { files: [{ name: 'x', text: '' }] }, '/files/0/name', 'path'],
  [updateTenantSchema, { suspended: true }, '/suspended', 'state'],
  [fileOperationSchema, { op: 'move', from: 'a', target: 'b' }, '/target', 'to'],
  [pageQuerySchema, { limt: '5' }, '/limt', 'limit'],
])('the error for an unknown key suggests the one that was probably meant: %o %j', (schema, body, pointer, key) => {
  expect(refusal(schema, body)).toContainEqual({
    pointer,
    detail: `is not a known key; did you mean ${key}?`,
  });
});

test('nothing is suggested for a key that is similar to none', () => {
  const detail = 'is not a known key';
  for (const pointer of ['/nonsense', '/__proto__x', '/constructor', `/${'x'.repeat(100)}`])
    expect(refusal(createExecutionSchema, { code: '1', [pointer.slice(1)]: 1 })).toEqual([{ pointer, detail }]);
});
