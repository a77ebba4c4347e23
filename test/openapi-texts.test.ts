import { Ajv2020 } from 'ajv/dist/2020.js';
import { describe, expect, test } from 'vitest';
import { parse } from 'yaml';
import { causeSchema } from '#contract';
import { openApiFiles } from '../scripts/openapi.ts';
import { readPage } from './pages.ts';

interface Media {
  schema: object;
  example?: unknown;
}
interface Operation {
  summary: string;
  description?: string;
  parameters?: { name: string; in: string; example?: unknown }[];
  requestBody?: { content: Record<string, Media> };
  responses: Record<string, { content?: Record<string, Media> }>;
}

const escapePointer = (part: string) => encodeURIComponent(part.replaceAll('~', '~0').replaceAll('/', '~1'));

describe.each(Object.entries(openApiFiles))('%s', (_, write) => {
  const document = parse(write()) as { paths: Record<string, Record<string, Operation>> };
  const ajv = new Ajv2020({ strict: false, validateFormats: false, allErrors: true }).addSchema(document, 'api');
  const operations = Object.entries(document.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => ({
      name: `${method.toUpperCase()} ${path}`,
      path,
      method,
      operation,
    })),
  );

  const faultsOf = (example: unknown, ...pointer: string[]) => {
    const validate = ajv.getSchema(`api#/${['paths', ...pointer, 'schema'].map(escapePointer).join('/')}`);
    if (!validate) return 'has no schema';
    return validate(example) ? undefined : ajv.errorsText(validate.errors);
  };

  test.each(operations)(
    '$name has a description in addition to its summary',
    ({ operation: { summary, description = '' } }) => {
      expect(description).toMatch(/^\S.{20,}[.]$/s);
      expect(description).not.toBe(`${summary}.`);
    },
  );

  test.each(operations)('$name has examples that match their schemas', ({ path, method, operation }) => {
    for (const [index, parameter] of (operation.parameters ?? []).entries()) {
      if (parameter.in !== 'path') continue;
      expect(faultsOf(parameter.example, path, method, 'parameters', String(index))).toBeUndefined();
    }
    for (const [type, { example }] of Object.entries(operation.requestBody?.content ?? {})) {
      if (!/^application\/(json|x-sh)$|^text\//.test(type)) continue;
      expect(example).toBeDefined();
      expect([type, faultsOf(example, path, method, 'requestBody', 'content', type)]).toEqual([type, undefined]);
    }
    const [status, response] = Object.entries(operation.responses).find(([, { content }]) => content) ?? [];
    const [type, media] = Object.entries(response?.content ?? {})[0] ?? [];
    if (status === undefined || type === undefined || !/^[12]/.test(status) || !/json$/.test(type)) return;
    expect(media?.example).toBeDefined();
    expect([type, faultsOf(media?.example, path, method, 'responses', status, 'content', type)]).toEqual([
      type,
      undefined,
    ]);
  });
});

test('the page about runs explains every cause that the contract names', async () => {
  const description = causeSchema.shape.code.meta()?.description ?? '';
  const codes = description.replaceAll(/\([^)]*\)/g, '').match(/\w+…?/g);
  expect(codes).toContain('kernel_start');
  const rows = (await readPage('docs/run-code.md')).split('\n').filter((line) => line.startsWith('| `'));
  const explained = rows.flatMap((row) =>
    [...(row.split('|')[1] ?? '').matchAll(/`([^`]+)`/g)].map(([, code]) => code),
  );
  expect(new Set(explained)).toEqual(new Set(codes));
});
