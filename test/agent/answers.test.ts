import { afterAll, beforeAll, expect, test } from 'vitest';
import type { AnswerEvent, Chat, Message, Page } from '#contract';
import { collect, eventually } from '../api/harness.ts';
import { type AgentProcess, readAnswer, serveAgentProcess, startAgentProcess } from './agent-harness.ts';
import { type ModelServer, type Reply, runs, startModelServer } from './model-server.ts';

let model: ModelServer;
let agent: AgentProcess;
/** A chat for tests that work after other questions and leave its box usable. */
let common: string;
beforeAll(async () => {
  model = await startModelServer();
  agent = await startAgentProcess({
    CODEBOX_MODEL_URL: `${model.url}/v1`,
    CODEBOX_MODEL: 'compatible/scripted',
  });
  common = (await agent.createChat()).id;
});
afterAll(async () => {
  await agent?.dispose();
  await model?.[Symbol.asyncDispose]();
});

const ndjson = { accept: 'application/x-ndjson' };
const post = (
  chat: string,
  content: string,
  more: Record<string, unknown> = {},
  headers: Record<string, string> = {},
) => agent.call(`/v1/chats/${chat}/messages`, { method: 'POST', body: JSON.stringify({ content, ...more }), headers });
const stream = async (chat: string, content: string, more: Record<string, unknown> = {}) =>
  readAnswer(await post(chat, content, more, ndjson));
const whole = async (chat: string, content: string, more: Record<string, unknown> = {}) =>
  (await (await post(chat, content, more)).json()) as Message;
const newChat = async (body: Record<string, unknown> = {}) => (await agent.createChat(body)).id;
const ofType = <T extends AnswerEvent['type']>(events: readonly AnswerEvent[], type: T) =>
  events.filter((event): event is Extract<AnswerEvent, { type: T }> => event.type === type);
const slow = runs('import time\nprint("begun", flush=True)\ntime.sleep(120)');
/** Reads up to the first event that fits, then stops. */
const until = async (events: AsyncIterable<AnswerEvent>, fits: (event: AnswerEvent) => boolean) => {
  const seen: AnswerEvent[] = [];
  for await (const event of events) {
    seen.push(event);
    if (fits(event)) return seen;
  }
  throw new Error(`the event did not arrive: ${JSON.stringify(seen)}`);
};
const lastOf = async (chat: string): Promise<Message | undefined> =>
  (await agent.send<Page<Message>>('GET', `/v1/chats/${chat}/messages`)).body.items.at(-1);
const settled = (chat: string) =>
  eventually(async () => {
    const last = await lastOf(chat);
    return last && last.status !== 'running' && last;
  });

const figure: Reply[] = [
  runs(
    'import matplotlib.pyplot as plt\nplt.plot([1, 2])\nplt.show()\nopen("out.csv", "w").write("a\\n1\\n")\nprint("drawn")',
    'python',
    'I draw. ',
  ),
  { text: 'Here is [the table](sandbox:/mnt/data/out.csv).' },
];

test('outputs of code keep their order, with pictures among text, both live and when read again', async () => {
  const chat = common;
  const plots =
    'import matplotlib.pyplot as plt\nfor n in range(2):\n  print("before", n)\n  plt.plot([n, 2])\n  plt.show()\nprint("after")';
  model.script(runs(plots), { text: 'Drawn.' });
  const events = await collect(await stream(chat, 'Draw twice'));
  const kinds = events.flatMap((event) => (event.type === 'output' || event.type === 'image' ? [event.type] : []));
  expect(kinds).toEqual(['output', 'image', 'output', 'image', 'output']);
  const code = (await lastOf(chat))?.parts.find(({ type }) => type === 'code');
  if (code?.type !== 'code') throw new Error('no code was run');
  const shown = code.outputs.map((output) =>
    output.type === 'image' ? (code.images[output.index]?.name ?? '') : 'text' in output ? output.text : output.type,
  );
  expect(shown).toEqual(['before 0\n', 'figure-1.png', 'before 1\n', 'figure-2.png', 'after\n']);
});

test('an answer is streamed with its code, output, picture, files and links, and can be read again', async () => {
  const chat = await newChat();
  model.script(...figure);
  const events = await collect(await stream(chat, 'Draw a line, please, and write a table'));
  expect(events.map(({ seq }) => seq)).toEqual(events.map((_, index) => index + 1));
  expect(events[0]).toMatchObject({ type: 'start', chat, model: 'compatible/scripted' });
  expect(events.at(-1)).toMatchObject({ type: 'done', status: 'ok', rounds: 2 });
  const [image] = ofType(events, 'image');
  const shown = await agent.call(image?.image.url ?? '', { key: '' });
  expect([shown.status, shown.headers.get('content-type')]).toEqual([200, 'image/png']);
  const chart = await agent.call(image?.image.chartUrl ?? '', { key: '' });
  expect(await chart.json()).toMatchObject({ version: 1, axes: [{ series: [{ y: [1, 2] }] }] });
  expect(ofType(events, 'file').map(({ file }) => file.path)).toEqual(['out.csv']);
  expect(JSON.stringify(ofType(events, 'output'))).not.toContain('base64');
  expect(ofType(events, 'ran')).toMatchObject([{ status: 'ok' }]);
  const content = ofType(events, 'text')
    .map(({ text }) => text)
    .join('');
  expect(content).not.toContain('sandbox:');
  const link = /\[the table\]\((\/v1\/files\/[^)]+)\)/.exec(content)?.[1] ?? '';
  expect(await (await agent.call(link, { key: '' })).text()).toBe('a\n1\n');

  const message = events[0]?.type === 'start' ? events[0].message : '';
  const read = (await agent.send<Message>('GET', `/v1/chats/${chat}/messages/${message}`)).body;
  expect(read).toMatchObject({ status: 'ok', rounds: 2, files: [{ path: 'out.csv' }] });
  expect(read.parts.map(({ type }) => type)).toEqual(['text', 'code', 'text']);
  expect(read.parts[1]).toMatchObject({ state: 'done', status: 'ok', images: [{ mime: 'image/png' }] });
  expect((await agent.send<Chat>('GET', `/v1/chats/${chat}`)).body).toMatchObject({
    title: 'Draw a line, please, and write a table',
    running: null,
  });
});

test('an answer can be returned whole as JSON, and the model gets the previous messages', async () => {
  const chat = await newChat();
  model.script({ text: 'Hello Ann.' });
  const first = await whole(chat, 'I am Ann');
  expect(first).toMatchObject({ role: 'assistant', status: 'ok', content: 'Hello Ann.', error: null });
  model.script({ text: 'Ann.' });
  await whole(chat, 'Who am I?');
  const prompt = JSON.stringify(model.requests[0]?.messages);
  expect(prompt).toContain('I am Ann');
  expect(prompt).toContain('Hello Ann.');
});

test('events can be resumed after the last one read, and are replayed if the agent has forgotten them', async () => {
  const chat = common;
  model.script(runs('print("one")'), { text: 'Done it.' });
  const events = await collect(await stream(chat, 'go'));
  const message = events[0]?.type === 'start' ? events[0].message : '';
  const at = `/v1/chats/${chat}/messages/${message}/events`;
  const rest = await collect(readAnswer(await agent.call(`${at}?after=3`, { headers: ndjson })));
  expect(rest).toEqual(events.slice(3).map((event) => expect.objectContaining({ seq: event.seq, type: event.type })));
  expect((await agent.call(`${at}?after=${events.length}`)).status).toBe(204);
  await agent.stop();
  await agent.restart();
  const again = await collect(readAnswer(await agent.call(`${at}?after=3`)));
  expect(again.map(({ type }) => type)).toEqual(['start', 'code', 'output', 'ran', 'text', 'done']);
  expect(again.at(-1)?.seq).toBe(events.length);
  expect((await agent.call(`${at}?after=${events.length}`)).status).toBe(204);
});

test('an answer continues after its client disconnects, and a second question meanwhile is a conflict', async () => {
  const chat = await newChat();
  model.script(runs('import time\nprint("a", flush=True)\ntime.sleep(3)'), { text: 'Made it.' });
  await until(await stream(chat, 'go'), ({ type }) => type === 'output');
  const second = await post(chat, 'and?');
  expect(second.status).toBe(409);
  expect(second.headers.get('retry-after')).not.toBeNull();
  expect((await agent.send<Chat>('GET', `/v1/chats/${chat}`)).body.running).toMatch(/^msg-/);
  expect(await settled(chat)).toMatchObject({ status: 'ok', content: 'Made it.' });
  expect((await agent.send<Page<Message>>('GET', `/v1/chats/${chat}/messages`)).body.items).toHaveLength(2);
});

test('stopping an answer ends its code and keeps its content and the variables', async () => {
  const chat = common;
  model.script(runs('x = 5\nimport time\nprint("begun", flush=True)\ntime.sleep(120)', 'python', 'Wait.'));
  const events = await stream(chat, 'go');
  const seen = await until(events, ({ type }) => type === 'output');
  expect((await agent.call(`/v1/chats/${chat}/stop`, { method: 'POST' })).status).toBe(202);
  expect((await agent.call(`/v1/chats/${chat}/stop`, { method: 'POST' })).status).toBe(202);
  expect(seen.length).toBeGreaterThan(0);
  const last = await settled(chat);
  expect(last).toMatchObject({ status: 'stopped', content: 'Wait.', error: null });
  expect(last.parts).toContainEqual(expect.objectContaining({ type: 'code', state: 'stopped' }));
  expect((await agent.send('POST', `/v1/chats/${chat}/cells`, { code: 'x' })).body.text).toBe('5');
});

test('code waits for approval; declined code does not run and the model gets the reason', async () => {
  const chat = await newChat({ approval: 'always' });
  model.script(runs('open("declined.txt", "w")'), runs('print(6 * 7)'), { text: 'It is 42.' });
  const decisions = [{ approved: false, reason: 'No files please' }, { approved: true }];
  const seen: AnswerEvent[] = [];
  for await (const event of await stream(chat, 'go')) {
    seen.push(event);
    if (event.type !== 'code' || event.state !== 'waiting') continue;
    const decision = { call: event.call, ...decisions.shift() };
    expect((await agent.send('POST', `/v1/chats/${chat}/approvals`, decision)).status).toBe(204);
  }
  expect(ofType(seen, 'code').map(({ state }) => state)).toEqual(
    expect.arrayContaining(['waiting', 'declined', 'running', 'done']),
  );
  expect(JSON.stringify(model.requests.at(-1)?.messages)).toContain('No files please');
  const files = await agent.send<Page<{ name: string }>>('GET', `/v1/chats/${chat}/files`);
  expect(files.body.items.map(({ name }) => name)).not.toContain('declined.txt');
  expect((await agent.send('POST', `/v1/chats/${chat}/approvals`, { call: 'x', approved: true })).status).toBe(409);
});

test('a failing model is reported with its error, and the chat continues', async () => {
  const chat = await newChat();
  model.script({ status: 401, message: 'bad key' });
  const failed = await whole(chat, 'go');
  expect(failed).toMatchObject({ status: 'error', error: { code: 'unauthorized' } });
  expect((await post(chat, 'go', { model: 'nobody/nothing' })).status).toBe(400);
  model.script({ text: 'Fine.' });
  expect(await whole(chat, 'again')).toMatchObject({ status: 'ok', content: 'Fine.' });
  const roles = model.requests[0]?.messages.map(({ role }) => role).filter((role) => role !== 'system');
  expect(roles).toEqual(['user', 'assistant', 'user']);
});

test('the model gets the files of a question with their columns', async () => {
  const chat = await newChat();
  await agent.call(`/v1/chats/${chat}/files/t.csv`, { method: 'PUT', body: 'day,sales\n2024-01-01,5\n' });
  model.script({ text: 'Seen.' });
  await whole(chat, '', { files: ['t.csv'] });
  const prompt = JSON.stringify(model.requests[0]?.messages.at(-1));
  expect(prompt).toContain('/mnt/data/t.csv');
  expect(prompt).toContain('sales (integer)');
  expect((await agent.send<Chat>('GET', `/v1/chats/${chat}`)).body.title).toBe('t.csv');
});

test('text of a model or its code with NUL bytes and lone surrogates is stored', async () => {
  const chat = common;
  model.script(runs('print("a\\x00b\\ud800".encode("utf-8", "replace").decode())'), { text: 'NUL \u0000 done' });
  const answer = await whole(chat, 'go \u0000');
  expect(answer.status).toBe('ok');
  expect(answer.content).toContain('done');
});

test('an answer is recorded as lost when its agent is killed, and the chat continues', async () => {
  const chat = await newChat();
  model.script(runs('y = 7', 'python', 'Thinking. '), slow);
  await until(await stream(chat, 'go'), (event) => event.type === 'output');
  await eventually(async () => ((await lastOf(chat))?.parts.length ?? 0) > 1);
  await agent.kill('SIGKILL');
  await agent.restart();
  const lost = await settled(chat);
  expect(lost).toMatchObject({ status: 'error', error: { code: 'lost' }, content: 'Thinking. ' });
  expect(
    lost.parts.some((part) => part.type === 'code' && (part.state === 'running' || part.state === 'waiting')),
  ).toBe(false);
  model.script({ text: 'Here again.' });
  expect(await whole(chat, 'still there?')).toMatchObject({ status: 'ok', content: 'Here again.' });
  expect(JSON.stringify(model.requests[0]?.messages)).toContain('"go"');
});

test('a stopping agent ends its answers with the reason', async () => {
  const chat = await newChat();
  model.script(slow);
  const events = await stream(chat, 'go');
  await until(events, ({ type }) => type === 'output');
  await agent.stop();
  await agent.restart();
  expect(await lastOf(chat)).toMatchObject({ status: 'stopped', error: { code: 'unavailable' } });
});

test('a chat continues after its box has hibernated or ended, and reports what is lost', async () => {
  const chat = await newChat();
  const notices = async () =>
    ofType(await collect(await stream(chat, 'go')), 'notice').map(({ kind, text }) => `${kind}: ${text}`);
  model.script(runs('x = 1\nopen("kept.txt", "w").write("k")'), { text: 'ok' });
  expect(await notices()).toEqual([]);
  const { box } = (await agent.send<Chat>('GET', `/v1/chats/${chat}`)).body;
  await agent.gateway.client.boxes.hibernate(box ?? '');
  model.script(runs('print(open("kept.txt").read(), "x" in globals())'), { text: 'ok' });
  expect(await notices()).toEqual([expect.stringMatching(/^continuity: .*files are still here/)]);
  expect(JSON.stringify(model.requests[0]?.messages.at(-1))).toContain('all variables and imports are gone');
  model.script({ text: 'ok' });
  expect(await notices()).toEqual([]);
  await agent.gateway.client.boxes.delete(box ?? '');
  model.script({ text: 'ok' });
  expect(await notices()).toEqual([expect.stringMatching(/^continuity: .*new computer/)]);
  // A loss of files that no answer has mentioned is not forgotten when variables are lost too.
  const boxOf = async () => (await agent.send<Chat>('GET', `/v1/chats/${chat}`)).body.box ?? '';
  await agent.gateway.client.boxes.delete(await boxOf());
  await agent.send('POST', `/v1/chats/${chat}/cells`, { code: '1' });
  await agent.gateway.client.boxes.hibernate(await boxOf());
  model.script({ text: 'ok' });
  expect(await notices()).toEqual([expect.stringMatching(/^continuity: .*new computer/)]);
});

test('an answer of another agent can be followed, approved and stopped', async () => {
  const other = await serveAgentProcess(agent.gateway, {
    CODEBOX_MODEL_URL: `${model.url}/v1`,
    CODEBOX_MODEL: 'compatible/scripted',
  });
  try {
    const chat = await newChat({ approval: 'always' });
    model.script(runs('print("ran")', 'python', 'Look. '), slow);
    const first = await until(await stream(chat, 'go'), (event) => event.type === 'code' && event.state === 'waiting');
    const [start] = ofType(first, 'start');
    const [code] = ofType(first, 'code');
    const odd = { call: 'another', approved: false, reason: 'no\0' };
    expect((await other.send('POST', `/v1/chats/${chat}/approvals`, odd)).status).toBe(204);
    const decision = { call: code?.call, approved: true };
    expect((await other.send('POST', `/v1/chats/${chat}/approvals`, decision)).status).toBe(204);
    const following = other.call(`/v1/chats/${chat}/messages/${start?.message}/events`);
    await eventually(async () => JSON.stringify((await lastOf(chat))?.parts).includes('"ran\\n"') || undefined);
    await other.call(`/v1/chats/${chat}/stop`, { method: 'POST' });
    const seen = await collect(readAnswer(await following));
    expect(seen[0]?.type).toBe('start');
    expect(seen.at(-1)).toMatchObject({ type: 'done', status: 'stopped' });
    expect(seen.map(({ seq }) => seq)).toEqual([...seen.map(({ seq }) => seq)].sort((a, b) => a - b));
  } finally {
    await other.dispose();
  }
});

test('pages of messages are bounded by what they take in memory, not by how well that compresses', async () => {
  const chat = await newChat();
  const text = 'a'.repeat(200_000);
  await agent.query(
    `insert into agent.messages (id, chat_id, role, status, content, parts)
      select $1::text || n, $1, case when n % 2 = 0 then 'user' else 'assistant' end, 'ok',
        case when n % 2 = 0 then $2::text else '' end,
        case when n % 2 = 0 then '[]'::jsonb
          else jsonb_build_array(jsonb_build_object('type', 'text', 'text', repeat($2::text, 2))) end
      from generate_series(1, 60) n`,
    [chat, text],
  );
  const ids: string[] = [];
  for (let cursor: string | null = ''; cursor !== null; ) {
    const query: string = cursor === '' ? '' : `&cursor=${cursor}`;
    const page = (await agent.send<Page<Message>>('GET', `/v1/chats/${chat}/messages?limit=1000${query}`)).body;
    expect(page.items.length).toBeLessThanOrEqual(11);
    ids.push(...page.items.map(({ id }) => id));
    cursor = page.nextCursor;
  }
  expect(ids).toEqual(Array.from({ length: 60 }, (_, index) => `${chat}${index + 1}`));
});

test('messages are listed in pages, which are shorter for large messages', async () => {
  const chat = await newChat();
  const noise = 'import random\nfrom IPython.display import HTML, display\n';
  const show = 'display(HTML("".join(map(chr, random.choices(range(0x4e00, 0x9fff), k=240_000)))))\n';
  for (let question = 1; question <= 4; question++) {
    model.script(runs(noise + show.repeat(4)), { text: `Answer ${question}.` });
    expect(await whole(chat, `Question ${question}`)).toMatchObject({ status: 'ok' });
  }
  const seen: string[] = [];
  const sizes: number[] = [];
  for (let cursor: string | null = ''; cursor !== null; ) {
    const query: string = cursor === '' ? '' : `&cursor=${cursor}`;
    const page = (await agent.send<Page<Message>>('GET', `/v1/chats/${chat}/messages?limit=7${query}`)).body;
    seen.push(...page.items.map(({ content }) => content));
    sizes.push(page.items.length);
    cursor = page.nextCursor;
  }
  expect(seen).toEqual([1, 2, 3, 4].flatMap((question) => [`Question ${question}`, `Answer ${question}.`]));
  expect(sizes[0]).toBeLessThan(7);
  expect((await agent.send('GET', `/v1/chats/${chat}/messages?cursor=x`)).status).toBe(400);
  const metrics = await (await agent.call('/metrics')).text();
  expect(metrics).toMatch(/codebox_answers_total\{status="ok"\} \d/);
  expect(metrics).toMatch(/codebox_answers_running 0/);
  expect(metrics).toMatch(/codebox_model_rounds_total \d/);
});
