import type { ResponseStreamEvent } from 'openai/resources/responses/responses';
import { expect, test } from 'vitest';
import type { AnswerEvent, Attachment } from '#contract';
import { containerFileId } from '../../../openai/container-file-id.ts';
import { containerId, fromContainerId, fromResponseId, responseId } from './ids.ts';
import { createResponseEvents } from './response-events.ts';

const chat = `chat-${'a'.repeat(26)}`;
const message = `msg-${'b'.repeat(26)}`;
const origin = 'http://agent.test';
const expiresAt = '2030-01-01T00:00:00Z';

const file = (name: string): Attachment => ({
  path: name,
  name,
  sizeBytes: 3,
  mime: 'text/csv',
  url: `/v1/files/t-k.n/${encodeURIComponent(name)}`,
  expiresAt,
});

type Unnumbered = AnswerEvent extends infer E ? (E extends AnswerEvent ? Omit<E, 'seq'> : never) : never;

const render = (events: Unnumbered[]): ResponseStreamEvent[] => {
  const responses = createResponseEvents(
    {
      id: responseId(chat, message),
      chat,
      model: 'openai/m',
      createdAt: 1,
      instructions: null,
      metadata: null,
      previous: null,
      isStored: true,
    },
    origin,
  );
  return events.flatMap((event, at) => responses.next({ ...event, seq: at + 1 } as AnswerEvent));
};

const start: Unnumbered = { type: 'start', chat, message, question: 'q', title: null, model: 'openai/m' };
const done = (more: Partial<Extract<AnswerEvent, { type: 'done' }>> = {}): Unnumbered => ({
  type: 'done',
  status: 'ok',
  content: '',
  files: [],
  tokens: { input: 7, output: 5 },
  rounds: 1,
  ...more,
});
const code = (state: 'running' | 'declined'): Unnumbered => ({
  type: 'code',
  call: 'c1',
  language: 'python',
  code: 'print(1)',
  state,
});

const last = (events: ResponseStreamEvent[]) => {
  const event = events.at(-1);
  if (event === undefined || !('response' in event)) throw new Error('the last event has no response');
  return event.response;
};

test('code, its output and the cited file become items in order, numbered without gaps', () => {
  const events = render([
    start,
    { type: 'text', text: 'I compute.' },
    code('running'),
    { type: 'output', call: 'c1', event: { seq: 2, type: 'stdout', text: '1\n' } },
    {
      type: 'image',
      call: 'c1',
      image: { name: 'f.png', mime: 'image/png', url: '/v1/files/t/f.png', chartUrl: null, expiresAt },
    },
    { type: 'ran', call: 'c1', status: 'ok', durationMs: 5 },
    { type: 'file', call: 'c1', file: file('a b.csv') },
    { type: 'text', text: 'See [it](/v1/files/x.y/a%20b.csv).' },
    done({ files: [file('a b.csv')] }),
  ]);
  expect(events.map(({ type }) => type)).toEqual([
    'response.created',
    'response.in_progress',
    'response.output_item.added',
    'response.content_part.added',
    'response.output_text.delta',
    'response.output_text.done',
    'response.content_part.done',
    'response.output_item.done',
    'response.output_item.added',
    'response.code_interpreter_call.in_progress',
    'response.code_interpreter_call_code.delta',
    'response.code_interpreter_call_code.done',
    'response.code_interpreter_call.interpreting',
    'response.code_interpreter_call.completed',
    'response.output_item.done',
    'response.output_item.added',
    'response.content_part.added',
    'response.output_text.delta',
    'response.output_text.annotation.added',
    'response.output_text.done',
    'response.content_part.done',
    'response.output_item.done',
    'response.completed',
  ]);
  expect(events.map((event) => ('sequence_number' in event ? event.sequence_number : -1))).toEqual(
    events.map((_, at) => at),
  );
  const { output, output_text, usage, status } = last(events);
  expect({ status, tokens: usage?.total_tokens }).toEqual({ status: 'completed', tokens: 12 });
  expect(output_text).toBe(`I compute.See [it](${origin}/v1/files/x.y/a%20b.csv).`);
  expect(output[1]).toMatchObject({
    type: 'code_interpreter_call',
    status: 'completed',
    code: 'print(1)',
    container_id: containerId(chat),
    outputs: [
      { type: 'logs', logs: '1\n' },
      { type: 'image', url: `${origin}/v1/files/t/f.png` },
    ],
  });
  const text = output[2]?.type === 'message' ? output[2].content[0] : undefined;
  if (text?.type !== 'output_text') throw new Error('there is no text');
  const [citation, ...more] = text.annotations;
  expect(more).toEqual([]);
  if (citation?.type !== 'container_file_citation') throw new Error('there is no citation');
  expect(citation).toMatchObject({ container_id: containerId(chat), file_id: containerFileId('a b.csv') });
  expect(text.text.slice(citation.start_index, citation.end_index)).toBe(`${origin}/v1/files/x.y/a%20b.csv`);
});

test('a file that no text names is cited at the end of the last text, also in an answer without text', () => {
  const output = (events: Unnumbered[]) => last(render(events)).output.at(-1);
  const cited = { type: 'container_file_citation', filename: 'a.csv', start_index: 4, end_index: 4 };
  const made = done({ files: [file('a.csv')] });
  expect(output([start, { type: 'text', text: 'Done' }, made])).toMatchObject({ content: [{ annotations: [cited] }] });
  expect(output([start, made])).toMatchObject({
    content: [{ text: '', annotations: [{ ...cited, start_index: 0, end_index: 0 }] }],
  });
});

test('code that did not run, or that was still running when the answer ended, is incomplete', () => {
  expect(last(render([start, code('declined'), done()])).output[0]).toMatchObject({ status: 'incomplete' });
  expect(last(render([start, code('running'), done({ status: 'stopped' })]))).toMatchObject({
    status: 'incomplete',
    output: [{ status: 'incomplete' }],
  });
});

test('code that runs again is another item with its own output', () => {
  const ran = (status: 'error' | 'ok'): Unnumbered => ({ type: 'ran', call: 'c1', status, durationMs: 1 });
  const print = (text: string): Unnumbered => ({ type: 'output', call: 'c1', event: { seq: 1, type: 'stdout', text } });
  const events = [
    start,
    code('running'),
    print('no module'),
    ran('error'),
    code('running'),
    print('7'),
    ran('ok'),
    done(),
  ];
  expect(last(render(events)).output).toMatchObject([
    { status: 'completed', outputs: [{ logs: 'no module' }] },
    { status: 'completed', outputs: [{ logs: '7' }] },
  ]);
});

test('a failed answer ends with its error', () => {
  const events = render([
    start,
    { type: 'error', code: 'too_many_requests', detail: 'Later.' },
    done({ status: 'error' }),
  ]);
  expect(events.at(-1)?.type).toBe('response.failed');
  expect(last(events)).toMatchObject({ status: 'failed', error: { code: 'rate_limit_exceeded', message: 'Later.' } });
});

test('only the id of a response decodes to a chat and an answer', () => {
  expect(fromResponseId(responseId(chat, message))).toEqual({ chat, message });
  expect(fromContainerId(containerId(chat))).toBe(chat);
  for (const id of ['', 'resp_x', `${responseId(chat, message)}x`, `resp_${'A'.repeat(26)}_${'b'.repeat(26)}`]) {
    expect(fromResponseId(id)).toBeUndefined();
  }
  expect(responseId(chat, message).length).toBeLessThanOrEqual(64);
});
