import { expect, test } from 'vitest';
import { CodeBoxError } from '#contract';
import { checkInput } from '../../../http/endpoints/endpoint.ts';
import { toOpenAiError } from '../../../openai/openai-error.ts';
import { readInput, responseRequestSchema } from './response-request.ts';

const read = (body: Record<string, unknown>) => readInput(checkInput(responseRequestSchema, body, ''), new Map());

const paramOf = (body: Record<string, unknown>): string | null => {
  try {
    read(body);
  } catch (error) {
    if (error instanceof CodeBoxError) return toOpenAiError(error).body.error.param;
    throw error;
  }
  throw new Error('the request was not refused');
};

const data = `data:text/plain;base64,${Buffer.from('hi').toString('base64')}`;

test('a text becomes the question, instructions become a note', () => {
  expect(read({ input: 'How many?', instructions: 'Be brief.' })).toEqual({
    notes: ['Be brief.'],
    earlier: [],
    question: 'How many?',
    files: [],
    earlierFiles: [],
  });
});

test('items carry earlier messages and the code that an earlier response ran', () => {
  const request = read({
    input: [
      { role: 'developer', content: 'In English.' },
      { type: 'message', role: 'user', content: [{ type: 'input_text', text: 'Add.' }] },
      { type: 'reasoning', id: 'rs_1', summary: [] },
      {
        type: 'code_interpreter_call',
        id: 'ci_1',
        code: 'print(1 + 1)',
        container_id: 'cntr_1',
        status: 'completed',
        outputs: [
          { type: 'logs', logs: '2\n' },
          { type: 'image', url: 'https://x.test' },
        ],
      },
      {
        type: 'message',
        id: 'm',
        role: 'assistant',
        status: 'completed',
        content: [{ type: 'output_text', text: 'Two.', annotations: [] }],
      },
      {
        role: 'user',
        content: [
          { type: 'input_file', filename: 'a.txt', file_data: data },
          { type: 'input_text', text: 'And this?' },
        ],
      },
    ],
  });
  expect(request.notes).toEqual(['In English.']);
  expect(request.earlier).toEqual([
    { role: 'user', content: 'Add.' },
    { role: 'assistant', content: 'I ran this code:\n\nprint(1 + 1)\n\nIt printed:\n\n2\n' },
    { role: 'assistant', content: 'Two.' },
  ]);
  expect(request).toMatchObject({ question: 'And this?', files: [{ name: 'a.txt' }] });
});

test('an unsupported request is refused with a pointer to the field', () => {
  const input = 'hi';
  expect([
    paramOf({}),
    paramOf({ input: '' }),
    paramOf({ input, tools: [{ type: 'web_search' }] }),
    paramOf({ input, tools: [{ type: 'code_interpreter', container: { type: 'auto', file_ids: [1] } }] }),
    paramOf({ input, background: true }),
    paramOf({ input, conversation: 'conv_1' }),
    paramOf({ input, text: { format: { type: 'json_schema', name: 'x', schema: {} } } }),
    paramOf({ input: [{ role: 'user', content: [{ type: 'input_file' }] }] }),
    paramOf({ input: [{ type: 'function_call_output', call_id: 'c', output: '' }] }),
    paramOf({ input: [{ role: 'assistant', content: 'x' }] }),
  ]).toEqual([
    'input',
    'input',
    'tools[0].type',
    'tools[0].container',
    'background',
    'conversation',
    'text.format.type',
    'input[0].content[0]',
    'input',
    'input',
  ]);
});
