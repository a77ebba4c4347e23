import { expect, test } from 'vitest';
import { CodeBoxError } from '#contract';
import { checkInput } from '../../../http/endpoints/endpoint.ts';
import { toOpenAiError } from '../../../openai/openai-error.ts';
import { chatCompletionRequestSchema, readMessages } from './completion-request.ts';

const read = (messages: unknown[], more: Record<string, unknown> = {}) =>
  readMessages(checkInput(chatCompletionRequestSchema, { messages, ...more }, '').messages);

const refused = (messages: unknown[], more: Record<string, unknown> = {}) => {
  try {
    read(messages, more);
  } catch (error) {
    if (error instanceof CodeBoxError) return toOpenAiError(error);
    throw error;
  }
  throw new Error('the request was not refused');
};

const data = `data:text/csv;base64,${Buffer.from('a,b\n').toString('base64')}`;

test('messages become a question, earlier messages and notes; files belong to the message that has them', () => {
  const input = read([
    { role: 'system', content: 'Be brief.' },
    { role: 'user', content: [{ type: 'file', file: { filename: 'old.csv', file_data: data } }] },
    { role: 'assistant', content: 'Thanks.' },
    {
      role: 'user',
      content: [
        { type: 'text', text: 'How many?' },
        { type: 'file', file: { filename: 'new.csv', file_data: data } },
        { type: 'image_url', image_url: { url: 'data:image/png;base64,AAAA' } },
      ],
    },
  ]);
  expect(input).toMatchObject({
    notes: ['Be brief.'],
    earlier: [
      { role: 'user', content: '' },
      { role: 'assistant', content: 'Thanks.' },
    ],
    question: 'How many?',
  });
  expect(input.files.map(({ name }) => name)).toEqual(['new.csv', 'image-1.png']);
  expect(input.files[0]).toMatchObject({ bytes: Buffer.from('a,b\n') });
  expect(input.earlierFiles.map(({ name }) => name)).toEqual(['old.csv']);
});

test('an unsupported request is refused with a pointer to the field', () => {
  const user = { role: 'user', content: 'hi' };
  const picture = {
    role: 'user',
    content: [{ type: 'image_url', image_url: { url: 'https://elsewhere.test/a.png' } }],
  };
  const climbing = { role: 'user', content: [{ type: 'file', file: { filename: '../up', file_data: data } }] };
  const params = [
    refused([user], { tools: [{ type: 'function', function: { name: 'f' } }] }),
    refused([user], { n: 2 }),
    refused([user], { response_format: { type: 'json_object' } }),
    refused([{ role: 'tool', content: 'x', tool_call_id: 'c' }]),
    refused([user, { role: 'assistant', content: 'yes' }]),
    refused([picture]),
    refused([climbing]),
    refused([{ role: 'user', content: [{ type: 'input_audio', input_audio: {} }] }]),
    refused([]),
  ];
  expect(params.map(({ status }) => status)).toEqual(params.map(() => 400));
  expect(params.map(({ body }) => body.error.param)).toEqual([
    'tools[0].type',
    'n',
    'response_format.type',
    'messages[0].role',
    'messages',
    'messages[0].content[0].image_url.url',
    'messages[0].content[0].file',
    'messages[0].content',
    'messages',
  ]);
});
