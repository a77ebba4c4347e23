import { describe, expect, test } from 'vitest';
import { z } from 'zod';
import { readArguments } from './arguments.ts';

const schema = z.object({ code: z.string().min(1), language: z.string().optional() });

describe('arguments', () => {
  test('that are valid stay unchanged', () => {
    expect(readArguments(schema, '{"code":"1"}', 'code')).toEqual({ value: { code: '1' }, isRepaired: false });
  });

  test.each([
    ['JSON with faults', "{'code': 'print(1)',}", 'print(1)'],
    ['JSON of JSON', JSON.stringify('{"code": "print(1)"}'), 'print(1)'],
    ['JSON of the code', JSON.stringify('print(1)'), 'print(1)'],
    ['the code itself', 'import os\nprint(os.sep)', 'import os\nprint(os.sep)'],
    ['the code between fences', '```python\nprint(1)\n```', 'print(1)'],
    ['JSON between fences', '```json\n{"code": "print(1)"}\n```', 'print(1)'],
  ])('as %s are repaired', (_what, text, code) => {
    expect(readArguments(schema, text, 'code')).toEqual({ value: { code }, isRepaired: true });
  });

  test.each(['', '{}', '[]', 'null', '{"code": 1}', '{"code": "print(1)', '{"code": ""}'])(
    '%j are refused with the fault',
    (text) => {
      expect(readArguments(schema, text, 'code')).toEqual({ fault: expect.stringMatching(/\S/) });
    },
  );

  test('are refused as bare text when the tool has no parameter for it', () => {
    expect(readArguments(schema, 'print(1)')).toEqual({ fault: expect.any(String) });
  });
});
