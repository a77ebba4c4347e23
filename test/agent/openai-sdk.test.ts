import OpenAI, { APIError, AuthenticationError, BadRequestError, NotFoundError } from 'openai';
import type { ResponseStreamEvent } from 'openai/resources/responses/responses';
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import { eventually } from '../api/harness.ts';
import { type RunningAgent, startAgent } from './agent-harness.ts';
import { type ModelServer, runs, startModelServer } from './model-server.ts';

const model = 'openai/gpt-5';
const makesFile = 'open("squares.csv", "w").write("n,square\\n3,9\\n")\nprint("made", 3 ** 2)';
const plots = 'import matplotlib.pyplot as plt\nplt.plot([1, 4, 9])\nplt.show()';
const csv = 'n,square\n3,9\n';
const text = 'It is nine: [squares](sandbox:/mnt/data/squares.csv).';

let models: ModelServer;
let agent: RunningAgent;
let openai: OpenAI;
beforeAll(async () => {
  models = await startModelServer();
  agent = await startAgent({
    OPENAI_API_KEY: 'sk-test',
    OPENAI_BASE_URL: `${models.url}/v1`,
    CODEBOX_MODELS: 'openai/gpt-5',
  });
  openai = new OpenAI({ baseURL: `${agent.url}/v1`, apiKey: agent.gateway.key, maxRetries: 0 });
});
afterAll(async () => {
  await agent?.dispose();
  await models?.[Symbol.asyncDispose]();
});
beforeEach(() => models.script({ text: 'The script is at its end.' }));

const chats = async () => (await agent.send<{ items: { id: string }[] }>('GET', '/v1/chats')).body.items;
/** Waits until only these chats are left: the chat of a request is removed after its response. */
const onlyLeaves = (before: { id: string }[]) =>
  eventually(
    async () => JSON.stringify((await chats()).map(({ id }) => id)) === JSON.stringify(before.map(({ id }) => id)),
  );
const question = (content: string) => [{ role: 'user' as const, content }];

test('a chat completion that ran code contains the code and a link to its file', async () => {
  models.script(runs(makesFile, 'python', 'I compute.'), { text });
  const completion = await openai.chat.completions.create({ model, messages: question('What is 3 squared?') });
  const content = completion.choices[0]?.message.content ?? '';
  expect(content).toMatch(/^I compute\.\n\nIt is nine: \[squares\]\(http:\/\/127\.0\.0\.1:\d+\/v1\/files\/[^)]+\)\.$/);
  expect(completion.choices[0]?.finish_reason).toBe('stop');
  expect(completion.usage?.total_tokens).toBeGreaterThan(0);
  expect(completion).toMatchObject({
    model,
    codebox: { files: [{ path: 'squares.csv' }], code_log: [{ code: makesFile, output: 'made 9\n', status: 'ok' }] },
  });
  const link = /\((http[^)]+)\)/.exec(content)?.[1] ?? '';
  expect(await (await fetch(link)).text()).toBe(csv);
});

test('a streamed chat completion has pictures where they were shown, and token counts at the end', async () => {
  models.script(runs(plots, 'python', 'I plot.'), { text: 'There it is.' });
  const stream = await openai.chat.completions.create({
    model,
    messages: question('Plot it.'),
    stream: true,
    stream_options: { include_usage: true },
  });
  let content = '';
  let finish: string | null | undefined;
  let tokens = 0;
  for await (const chunk of stream) {
    content += chunk.choices[0]?.delta.content ?? '';
    finish ??= chunk.choices[0]?.finish_reason;
    tokens += chunk.usage?.total_tokens ?? 0;
  }
  expect(finish).toBe('stop');
  expect(tokens).toBeGreaterThan(0);
  expect(content).toMatch(/^I plot\.\n\n!\[[^\]]*\]\(http[^)]+\)\n\nThere it is\.$/);
  const picture = await fetch(/\((http[^)]+)\)/.exec(content)?.[1] ?? '');
  expect(
    Buffer.from(await picture.arrayBuffer())
      .subarray(1, 4)
      .toString(),
  ).toBe('PNG');
});

test('without a session the history is that of the request, and a completion without files leaves no chat', async () => {
  models.script({ text: 'Ada.' });
  const before = await chats();
  const completion = await openai.chat.completions.create({
    model,
    messages: [
      { role: 'system', content: 'Speak like a pirate.' },
      { role: 'user', content: 'I am Ada.' },
      { role: 'assistant', content: 'Ahoy!' },
      { role: 'user', content: 'Who am I?' },
    ],
  });
  expect(completion.choices[0]?.message.content).toBe('Ada.');
  const prompt = models.requests[0]?.messages ?? [];
  expect(prompt.map(({ role }) => role)).toEqual(['system', 'user', 'assistant', 'user']);
  expect(String(prompt[0]?.content)).toContain('Speak like a pirate.');
  expect(prompt.slice(1).map(({ content }) => content)).toEqual(['I am Ada.', 'Ahoy!', 'Who am I?']);
  await onlyLeaves(before);
});

test('a session continues with its box and history, whatever history the client sends', async () => {
  const complete = (content: string) =>
    openai.chat.completions.create({ model, messages: question(content), ...{ session_id: 'ada, on Monday' } });
  models.script(runs('x = 41'), { text: 'Kept.' }, runs('print(x + 1)'), { text: 'It is 42.' });
  await complete('Keep 41.');
  const completion = await complete('And one more?');
  expect(completion).toMatchObject({ codebox: { code_log: [{ output: '42\n' }] } });
  expect(models.requests[2]?.messages.some(({ content }) => content === 'Keep 41.')).toBe(true);
  const { chat } = (completion as unknown as { codebox: { chat: string } }).codebox;
  expect((await chats()).map(({ id }) => id)).toContain(chat);
});

test('files embedded in messages are stored in the box', async () => {
  models.script(runs('print(open("numbers.txt").read())'), { text: 'Read.' });
  const file_data = `data:text/plain;base64,${Buffer.from('1 2 3').toString('base64')}`;
  const completion = await openai.chat.completions.create({
    model,
    messages: [
      {
        role: 'user',
        content: [
          { type: 'text', text: 'Read it.' },
          { type: 'file', file: { filename: 'numbers.txt', file_data } },
        ],
      },
    ],
  });
  expect(completion).toMatchObject({ codebox: { code_log: [{ output: '1 2 3\n' }] } });
});

test('a response contains its code with output, and cites its file, which the container serves', async () => {
  models.script(runs(makesFile), { text });
  const response = await openai.responses.create({
    model,
    input: 'What is 3 squared?',
    tools: [{ type: 'code_interpreter', container: { type: 'auto' } }],
  });
  expect(response.status).toBe('completed');
  expect(response.output_text).toContain('It is nine');
  const [code, message] = response.output;
  expect(code).toMatchObject({
    type: 'code_interpreter_call',
    status: 'completed',
    code: makesFile,
    outputs: [{ type: 'logs', logs: 'made 9\n' }],
  });
  const part = message?.type === 'message' ? message.content[0] : undefined;
  const citation = part?.type === 'output_text' ? part.annotations[0] : undefined;
  if (citation?.type !== 'container_file_citation') throw new Error('nothing is cited');
  expect(citation.filename).toBe('squares.csv');
  const where = { container_id: citation.container_id };
  const content = await openai.containers.files.content.retrieve(citation.file_id, where);
  expect(await content.text()).toBe(csv);
  expect(await openai.containers.files.retrieve(citation.file_id, where)).toMatchObject({
    path: '/mnt/data/squares.csv',
    bytes: csv.length,
  });
  const listed = await openai.containers.files.list(citation.container_id);
  expect(listed.data.map(({ id }) => id)).toEqual([citation.file_id]);
});

test('a container that was created is used by a response, and is listed and deleted with its files', async () => {
  const made = await openai.containers.create({ name: 'mine' });
  expect(made).toMatchObject({ object: 'container', name: 'mine', status: 'running' });
  await openai.containers.files.create(made.id, { file: new File(['1 2 3'], 'in.txt') });
  models.script(runs('print(open("in.txt").read())\nx = 41'), { text: 'Read.' }, runs('print(x + 1)'), {
    text: 'It is 42.',
  });
  const tools = [{ type: 'code_interpreter' as const, container: made.id }];
  for (const logs of ['1 2 3\n', '42\n']) {
    const response = await openai.responses.create({ model, input: 'Go on.', tools });
    expect(response.output[0]).toMatchObject({ container_id: made.id, outputs: [{ logs }] });
  }
  const other = await openai.containers.create({ name: 'other' });
  const listed: string[] = [];
  for await (const { id } of openai.containers.list({ limit: 1 })) listed.push(id);
  expect(listed.slice(0, 2)).toEqual([other.id, made.id]);
  for (const { id } of [made, other]) await openai.containers.delete(id);
  await expect(openai.containers.retrieve(made.id)).rejects.toThrow(NotFoundError);
  await expect(openai.responses.create({ model, input: 'Again?', tools })).rejects.toThrow(NotFoundError);
  const unsupported: [more: Omit<OpenAI.ContainerCreateParams, 'name'>, param: string][] = [
    [{ file_ids: ['file-1'] }, 'file_ids[0]'],
    [{ expires_after: { anchor: 'last_active_at', minutes: 5 } }, 'expires_after'],
    [{ memory_limit: '4g' }, 'memory_limit'],
  ];
  for (const [more, param] of unsupported)
    await expect(openai.containers.create({ name: 'x', ...more })).rejects.toMatchObject({ status: 400, param });
});

test('a stored file begins a container, joins another one, and is read by responses, until it expires', async () => {
  const store = (name: string, content: string, more: Partial<OpenAI.FileCreateParams> = {}) =>
    openai.files.create({ file: new File([content], name), purpose: 'user_data', ...more });
  const lasting = { expires_after: { anchor: 'created_at' as const, seconds: 7200 } };
  const table = await store('table.csv', csv, lasting);
  expect(table).toMatchObject({ object: 'file', bytes: csv.length, filename: 'table.csv', purpose: 'user_data' });
  expect((table.expires_at ?? 0) - table.created_at).toBe(7200);
  const notes = await store('content', 'some notes');
  const listed: string[] = [];
  for await (const { id } of openai.files.list({ limit: 1, order: 'asc' })) listed.push(id);
  expect(listed).toEqual([table.id, notes.id]);
  expect(await (await openai.files.content(notes.id)).text()).toBe('some notes');

  const container = await openai.containers.create({ name: 'with files', file_ids: [table.id] });
  await openai.containers.files.create(container.id, { file_id: notes.id });
  const paths = (await openai.containers.files.list(container.id)).data.map(({ path }) => path);
  expect(paths.sort()).toEqual(['/mnt/data/content', '/mnt/data/table.csv']);
  models.script(runs('print(open("table.csv").read(), open("content").read())'), { text: 'Read.' });
  const answered = await openai.responses.create({
    model,
    input: [{ role: 'user', content: [{ type: 'input_file', file_id: notes.id }] }],
    tools: [{ type: 'code_interpreter', container: { type: 'auto', file_ids: [table.id] } }],
    include: ['code_interpreter_call.outputs'],
  });
  expect(answered.output[0]).toMatchObject({ outputs: [{ type: 'logs', logs: `${csv} some notes\n` }] });

  const stranger = new OpenAI({
    baseURL: `${agent.url}/v1`,
    apiKey: agent.gateway.key,
    maxRetries: 0,
    defaultHeaders: { 'X-CodeBox-User': 'eve' },
  });
  await expect(stranger.files.retrieve(table.id)).rejects.toThrow(NotFoundError);
  const theirs = stranger.containers.create({ name: 'x', file_ids: [table.id] });
  await expect(theirs).rejects.toMatchObject({ status: 400, param: 'file_ids[0]' });
  const brief = store('x', 'x', { expires_after: { anchor: 'created_at', seconds: 60 } });
  await expect(brief).rejects.toMatchObject({ status: 400, param: 'expires_after.seconds' });

  await agent.query('update agent.uploads set expires_at = now() where id = $1', [table.id]);
  await expect(openai.files.retrieve(table.id)).rejects.toThrow(NotFoundError);
  expect(await openai.files.delete(notes.id)).toEqual({ id: notes.id, object: 'file', deleted: true });
  expect((await openai.files.list()).data).toEqual([]);
  await eventually(async () => (await agent.query('select id from agent.uploads')).length === 0);
});

test('the files of a container can be listed in pages and read by id, among thousands of folders', async () => {
  const { id } = await agent.createChat();
  const container = id.replace('chat-', 'cntr_');
  const makes = [
    'import os',
    'for n in range(3000): os.mkdir(f"folder-{n}")',
    'for n in range(5): open(f"folder-{n}/file-{n}.txt", "w").write(str(n)); os.utime(f"folder-{n}/file-{n}.txt", (n, n))',
    'open(b"folder-0/n\\xe4me \\xe6\\x96\\x87.txt", "w").write("odd")',
  ];
  const made = await agent.send('POST', `/v1/chats/${id}/cells`, { code: makes.join('\n') });
  expect(made.body.status).toBe('ok');
  const names: string[] = [];
  for await (const { path } of openai.containers.files.list(container, { limit: 2, order: 'asc' })) names.push(path);
  const numbered = [0, 1, 2, 3, 4].map((n) => `/mnt/data/folder-${n}/file-${n}.txt`);
  expect(names).toEqual([...numbered, '/mnt/data/folder-0/n\ufffdme 文.txt']);
  const [odd, last] = (await openai.containers.files.list(container, { limit: 2 })).data;
  const where = { container_id: container };
  expect(last?.path).toBe(numbered[4]);
  expect(await (await openai.containers.files.content.retrieve(odd?.id ?? '', where)).text()).toBe('odd');
  await openai.containers.files.delete(odd?.id ?? '', where);
  await expect(openai.containers.files.retrieve(odd?.id ?? '', where)).rejects.toThrow(NotFoundError);
  const behind = openai.containers.files.list(container, { after: odd?.id ?? '' });
  await expect(behind).rejects.toThrow(NotFoundError);
});

test('a streamed response sends the code, then the text, and ends with the complete response', async () => {
  models.script(runs(plots), { text: 'There it is.' });
  const events: ResponseStreamEvent[] = [];
  const stream = await openai.responses.create({ model, input: 'Plot it.', stream: true });
  for await (const event of stream) events.push(event);
  const kinds = events.map(({ type }) => type).filter((type, at, all) => type !== all[at - 1]);
  expect(kinds).toEqual([
    'response.created',
    'response.in_progress',
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
    'response.output_text.done',
    'response.content_part.done',
    'response.output_item.done',
    'response.completed',
  ]);
  const last = events.at(-1);
  const call = last?.type === 'response.completed' ? last.response.output[0] : undefined;
  const image = call?.type === 'code_interpreter_call' ? call.outputs?.find(({ type }) => type === 'image') : undefined;
  const picture = await fetch(image?.type === 'image' ? image.url : '');
  expect(
    Buffer.from(await picture.arrayBuffer())
      .subarray(1, 4)
      .toString(),
  ).toBe('PNG');
});

test('a response can continue a previous one, be read again, and be deleted with its chat', async () => {
  models.script(runs('x = 41'), { text: 'Kept.' }, runs('print(x + 1)'), { text: 'It is 42.' });
  const first = await openai.responses.create({ model, input: 'Keep 41.' });
  const second = await openai.responses.create({ model, input: 'And one more?', previous_response_id: first.id });
  expect(second.output[0]).toMatchObject({ outputs: [{ logs: '42\n' }] });
  const { created_at: _, metadata: __, ...whole } = second;
  expect(await openai.responses.retrieve(second.id)).toMatchObject(JSON.parse(JSON.stringify(whole)));
  const branched = openai.responses.create({ model, input: 'Otherwise?', previous_response_id: first.id });
  await expect(branched).rejects.toThrow(BadRequestError);
  await openai.responses.delete(second.id);
  await expect(openai.responses.retrieve(second.id)).rejects.toThrow(NotFoundError);
  await expect(openai.responses.retrieve(first.id)).rejects.toThrow(NotFoundError);
});

test('cancelling a response that has ended leaves the next one of its chat alone', async () => {
  models.script({ text: 'First.' }, runs('import time\nprint("begun", flush=True)\ntime.sleep(120)'));
  const first = await openai.responses.create({ model, input: 'One.' });
  const events = await openai.responses.create({ model, input: 'Two.', previous_response_id: first.id, stream: true });
  let second = '';
  for await (const event of events) {
    if (event.type === 'response.created') second = event.response.id;
    if (event.type !== 'response.output_item.added') continue;
    expect(await openai.responses.cancel(first.id)).toMatchObject({ id: first.id, status: 'completed' });
    const unknown = await agent.call(`/v1/responses/${first.id.slice(0, -3)}zzz/cancel`, { method: 'POST' });
    expect(unknown.status).toBe(404);
    expect(await openai.responses.retrieve(second)).toMatchObject({ status: 'in_progress' });
    await openai.responses.cancel(second);
  }
  await eventually(async () => (await openai.responses.retrieve(second)).status !== 'in_progress');
  await openai.responses.delete(second);
});

test('a response with store: false leaves no chat', async () => {
  models.script({ text: 'Hi.' });
  const before = await chats();
  const response = await openai.responses.create({ model, input: 'Hello', store: false });
  expect(response.output_text).toBe('Hi.');
  await onlyLeaves(before);
  await expect(openai.responses.retrieve(response.id)).rejects.toThrow(NotFoundError);
});

test('errors have the format of OpenAI', async () => {
  const stranger = new OpenAI({ baseURL: `${agent.url}/v1`, apiKey: 'cbx_wrong', maxRetries: 0 });
  await expect(stranger.responses.create({ model, input: 'hi' })).rejects.toThrow(AuthenticationError);
  const failed = await openai.chat.completions
    .create({ model, messages: question('hi'), tools: [{ type: 'function', function: { name: 'f' } }] })
    .catch((error: unknown) => error);
  expect(failed).toBeInstanceOf(BadRequestError);
  expect(failed).toMatchObject({ type: 'invalid_request_error', param: 'tools[0].type' });
  expect(await openai.responses.create({ model: 'openai/none', input: 'hi' }).catch((error) => error)).toMatchObject({
    status: 404,
    code: 'model_not_found',
  });
  for (const path of ['/v1/files?purpose=%00', '/v1/files?after=%00', '/v1/containers?after=%00'])
    expect((await agent.call(path)).status, path).toBe(400);
  expect((await agent.send('POST', '/v1/containers', { name: 'x', file_ids: ['\0'] })).status).toBe(400);
  const wrong = await agent.call('/v1/responses', { method: 'PUT' });
  expect(wrong.status).toBe(405);
  expect(await wrong.json()).toMatchObject({ error: { type: 'invalid_request_error', code: 'method_not_allowed' } });
});

test('a failing model is an error of the request or of the stream', async () => {
  models.script({ status: 400, message: 'no' });
  await expect(openai.chat.completions.create({ model, messages: question('hi') })).rejects.toThrow(APIError);
  models.script({ status: 400, message: 'no' });
  const stream = await openai.chat.completions.create({ model, messages: question('hi'), stream: true });
  const read = async () => {
    for await (const _ of stream);
  };
  await expect(read()).rejects.toThrow(APIError);
});
