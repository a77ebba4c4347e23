import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { AnswerEvent, Attachment, Chat, Message, Page } from '#contract';
import { collect, databaseUrl, eventually } from '../api/harness.ts';
import { type AgentProcess, readAnswer, serveAgentProcess, startAgentProcess } from './agent-harness.ts';
import { type ModelServer, runs, startModelServer } from './model-server.ts';

let model: ModelServer;
let agent: AgentProcess;
let env: Record<string, string>;
beforeAll(async () => {
  model = await startModelServer();
  env = { CODEBOX_MODEL_URL: `${model.url}/v1`, CODEBOX_MODEL: 'compatible/scripted' };
  agent = await startAgentProcess(env);
});
afterAll(async () => {
  await agent?.dispose();
  await model?.[Symbol.asyncDispose]();
});

const post = (chat: string, content: string, accept = 'application/json') =>
  agent.call(`/v1/chats/${chat}/messages`, { method: 'POST', body: JSON.stringify({ content }), headers: { accept } });
const stream = async (chat: string, content: string) => readAnswer(await post(chat, content, 'application/x-ndjson'));
const whole = async (chat: string, content: string) => (await (await post(chat, content)).json()) as Message;
const lastOf = async (chat: string): Promise<Message | undefined> =>
  (await agent.send<Page<Message>>('GET', `/v1/chats/${chat}/messages`)).body.items.at(-1);
const settled = (chat: string) =>
  eventually(async () => {
    const last = await lastOf(chat);
    return last && last.status !== 'running' && last;
  });
const isWaiting = (event: AnswerEvent): boolean => event.type === 'code' && event.state === 'waiting';
/** Reads up to the first event that fits, then stops. */
const until = async (events: AsyncIterable<AnswerEvent>, fits: (event: AnswerEvent) => boolean) => {
  const seen: AnswerEvent[] = [];
  for await (const event of events) {
    seen.push(event);
    if (fits(event)) return seen;
  }
  throw new Error(`the event did not arrive: ${JSON.stringify(seen)}`);
};
const callOf = (event: AnswerEvent | undefined): string => (event?.type === 'code' ? event.call : '');
const messageOf = (event: AnswerEvent | undefined): string => (event?.type === 'start' ? event.message : '');

test('invalid token counts of a model do not break an answer or its chat', async () => {
  const { id } = await agent.createChat();
  model.script({ text: 'Cheap.', usage: { prompt_tokens: 2.5, completion_tokens: 9e12 } }, { text: 'Again.' });
  expect(await whole(id, 'go')).toMatchObject({
    status: 'ok',
    content: 'Cheap.',
    tokens: { input: 2, output: 2 ** 31 - 1 },
  });
  expect(await whole(id, 'and?')).toMatchObject({ status: 'ok', content: 'Again.' });
});

test('an answer that ends during a database outage is stored, and its chat continues', async () => {
  const { id } = await agent.createChat();
  const { promise: after, resolve } = Promise.withResolvers<void>();
  model.script({ text: 'I was made meanwhile.', after });
  const answer = post(id, 'go').catch(() => {});
  await eventually(async () => model.requestCount() > 0 || undefined);
  const database = new pg.Client({ connectionString: await databaseUrl(agent.gateway.dataDir) });
  await database.connect();
  const permit = (isOpen: boolean) => database.query('update pg_database set datallowconn = $1', [isOpen]);
  await permit(false);
  const living = "from pg_stat_activity where datname = 'postgres' and pid <> pg_backend_pid()";
  await database.query(`select pg_terminate_backend(pid) ${living}`);
  // As in an outage that is longer than the lease of the answer.
  await database.query("update agent.messages set lease_until = now() where status = 'running'");
  resolve();
  // Long enough for a sweep of the agent.
  await sleep(6000);
  expect((await database.query(`select 1 ${living}`)).rowCount).toBe(0);
  await permit(true);
  await database.end();
  await answer;
  const last = await eventually(async () => {
    const read = await lastOf(id).catch(() => undefined);
    return read && read.status !== 'running' && read;
  });
  expect(last).toMatchObject({ status: 'ok', content: 'I was made meanwhile.', error: null });
  model.script({ text: 'Going on.' });
  expect(await whole(id, 'and?')).toMatchObject({ content: 'Going on.' });
});

test('a client that resumes a lost answer gets its end, whatever event it resumes after', async () => {
  const { id } = await agent.createChat();
  model.script(runs('import time\nprint("begun", flush=True)\ntime.sleep(120)'));
  const seen = await until(await stream(id, 'go'), ({ type }) => type === 'output');
  await agent.die();
  await agent.restart();
  await settled(id);
  const at = `/v1/chats/${id}/messages/${messageOf(seen[0])}/events?after=57`;
  const resumed = await collect(readAnswer(await agent.call(at)));
  expect(resumed[0]?.type).toBe('start');
  expect(resumed.at(-1)).toMatchObject({ type: 'done', status: 'error' });
});

test('an answer of another agent can be followed step by step, and is replayed to a client that changes agents', async () => {
  const other = await serveAgentProcess(agent.gateway, env);
  try {
    const { id } = await agent.createChat({ approval: 'always' });
    model.script(runs('print("one")', 'python', 'First. '), runs('print("two")', 'python', 'Then. '), {
      text: 'Done.',
    });
    const first = await until(await stream(id, 'go'), isWaiting);
    const at = `/v1/chats/${id}/messages/${messageOf(first[0])}/events`;
    const approve = (event: AnswerEvent | undefined) =>
      other.send('POST', `/v1/chats/${id}/approvals`, { call: callOf(event), approved: true });
    const following = readAnswer(await other.call(at));
    const one = await until(following, isWaiting);
    expect((await approve(one.at(-1))).status).toBe(204);
    const again = readAnswer(await other.call(`${at}?after=${one.at(-1)?.seq}`));
    const two = await until(again, (event) => isWaiting(event) && callOf(event) !== callOf(one.at(-1)));
    expect(two.map(({ seq }) => seq)).toEqual([...two.map(({ seq }) => seq)].sort((a, b) => a - b));
    const back = readAnswer(await agent.call(`${at}?after=${two.at(-1)?.seq}`));
    const [start] = await until(back, isWaiting);
    expect(start).toMatchObject({ type: 'start', seq: 1 });
    await approve(two.at(-1));
    expect(await settled(id)).toMatchObject({ status: 'ok', content: 'First. Then. Done.' });
    expect((await agent.call(`${at}?after=${two.at(-1)?.seq}`)).status).toBe(200);
  } finally {
    await other.dispose();
  }
});

test('a refused request does not remove the chat of its session that another request uses', async () => {
  const generate = (message: string, more = {}) =>
    agent.send<{ content: string; session: string }>('POST', '/v1/generate', { message, session: 'shared', ...more });
  const chats = async () => (await agent.send<Page<Chat>>('GET', '/v1/chats?limit=100')).body.items;
  const before = new Set((await chats()).map(({ id }) => id));
  model.script(runs('import time\ntime.sleep(3)\nopen("kept.txt", "w").write("k")'), { text: 'Kept.' });
  const files = Array.from({ length: 20 }, (_, index) => ({ name: `in-${index}.txt`, text: 'x' }));
  const refused = generate('first', { model: 'nobody/nothing', files });
  const made = await eventually(async () => (await chats()).find(({ id }) => !before.has(id)));
  const answer = await generate('second');
  expect((await refused).status).toBe(400);
  expect(answer).toMatchObject({ status: 200, body: { content: 'Kept.' } });
  expect((await agent.call(`/v1/chats/${made.id}/files/kept.txt`)).status).toBe(200);
  expect((await generate('third', { session: 'unasked', model: 'nobody/nothing' })).status).toBe(400);
  expect((await chats()).filter(({ id }) => !before.has(id))).toHaveLength(1);
});

test('the model is informed once that variables are lost, also if an answer failed in between', async () => {
  const { id } = await agent.createChat();
  model.script(runs('x = 1'), { text: 'Set.' });
  await whole(id, 'set x');
  const { box } = (await agent.send<Chat>('GET', `/v1/chats/${id}`)).body;
  await agent.gateway.client.boxes.hibernate(box ?? '');
  model.script({ status: 401, message: 'bad key' }, { text: 'It is gone.' });
  expect(await whole(id, 'first')).toMatchObject({ status: 'error' });
  expect(await whole(id, 'second')).toMatchObject({ content: 'It is gone.' });
  const prompt = JSON.stringify(model.requests.at(-1)?.messages);
  expect(prompt.split('all variables and imports are gone')).toHaveLength(2);
});

test('reader and model are informed once of a lost box, also if the agent died when it had detected the loss', async () => {
  const { id } = await agent.createChat();
  model.script(runs('x = 1'), { text: 'Set.' });
  await whole(id, 'set x');
  const { box } = (await agent.send<Chat>('GET', `/v1/chats/${id}`)).body;
  await agent.gateway.client.boxes.delete(box ?? '');
  model.script({ fault: 'hang' });
  const posted = post(id, 'and?').catch(() => {});
  await eventually(async () => model.requestCount() > 0 || undefined);
  await agent.die();
  await posted;
  await agent.restart();
  expect(await settled(id)).toMatchObject({ status: 'error', parts: [{ type: 'notice', kind: 'continuity' }] });
  model.script({ text: 'It is gone.' });
  expect((await whole(id, 'again')).parts.map(({ type }) => type)).toEqual(['text']);
  expect(JSON.stringify(model.requests.at(-1)?.messages).split('The box is a new one')).toHaveLength(2);
});

test('the chat and box of a completion are removed when its links expire, also after its agent was killed', async () => {
  await agent.stop();
  await agent.restart({ CODEBOX_LINK_SECONDS: '3' });
  model.script(runs('open("a.csv", "w").write("a")'), { text: 'Here is [it](sandbox:/mnt/data/a.csv).' });
  const messages = [{ role: 'user', content: 'Write it.' }];
  const before = (await agent.send<Page<Chat>>('GET', '/v1/chats?limit=100')).body.items.length;
  const said = await agent.send('POST', '/v1/chat/completions', { model: 'compatible/scripted', messages });
  expect(JSON.stringify(said.body)).toMatch(/v1\/files\/[\w-]+\/a.csv/);
  const [chat] = (await agent.send<Page<Chat>>('GET', '/v1/chats')).body.items;
  await agent.kill('SIGKILL');
  await agent.restart();
  await eventually(
    async () => (await agent.send<Page<Chat>>('GET', '/v1/chats?limit=100')).body.items.length === before,
    20_000,
  );
  expect((await agent.send('GET', `/v1/chats/${chat?.id}`)).status).toBe(404);
  await eventually(async () => (await agent.gateway.client.boxes.read(chat?.box ?? '')).state === 'deleted', 30_000);
});

test('a deleted file is marked as gone in live events and in history, until it is created again', async () => {
  const { id } = await agent.createChat();
  await agent.call(`/v1/chats/${id}/files/in.csv`, { method: 'PUT', body: 'x\n1\n' });
  const made = { text: 'See [a](sandbox:/mnt/data/a.csv) and [kept](sandbox:/mnt/data/b.csv).' };
  const make = 'for name in ["a.csv", "b.csv", "d.csv"]: open(name, "w").write("1")';
  model.script(runs(make), made);
  const question = { content: 'go', files: ['in.csv'] };
  await agent.send('POST', `/v1/chats/${id}/messages`, question);
  const copy = await agent.send<Attachment>('POST', `/v1/chats/${id}/artifacts`, { path: 'a.csv' });
  model.script(runs('import os; os.rename("a.csv", "c.csv"); os.remove("in.csv")'), { text: 'Moved.' });
  const events = await collect(await stream(id, 'move it'));
  expect(events.find(({ type }) => type === 'ran')).toMatchObject({ deleted: ['a.csv', 'in.csv'] });

  const messages = async () => (await agent.send<Page<Message>>('GET', `/v1/chats/${id}/messages`)).body.items;
  const goneOf = async () =>
    (await messages()).map(({ files }) => files.flatMap(({ path, isGone }) => (isGone ? [path] : [])).sort());
  expect(await goneOf()).toEqual([['in.csv'], ['a.csv'], [], []]);
  const [, first] = await messages();
  expect(first?.content).toMatch(/^See \[a\]\(sandbox:\/mnt\/data\/a\.csv\) and \[kept\]\(\/v1\/files\//);
  expect(first?.parts[0]).toMatchObject({
    files: [{ path: 'a.csv', isGone: true }, { path: 'b.csv' }, { path: 'd.csv' }],
  });
  expect((await agent.call(copy.body.url, { key: '' })).status).toBe(200);

  model.script(runs('open("a.csv", "w").write("anew")'), { text: 'Made anew.' });
  const anew = (await whole(id, 'again')).files;
  expect(anew).toMatchObject([{ path: 'a.csv' }]);
  expect(anew[0]?.isGone).toBeUndefined();
  expect(await (await agent.call(anew[0]?.url ?? '', { key: '' })).text()).toBe('anew');
  expect(await goneOf()).toEqual([['in.csv'], ['a.csv'], [], [], [], []]);

  await agent.send('POST', `/v1/chats/${id}/cells`, { code: 'import os; os.remove("b.csv")' });
  expect((await goneOf())[1]).toEqual(['a.csv', 'b.csv']);
  const leave = new AbortController();
  await agent.call(`/v1/chats/${id}/cells`, {
    method: 'POST',
    body: JSON.stringify({ code: 'import os, time\ntime.sleep(1)\nos.remove("d.csv")' }),
    headers: { accept: 'application/x-ndjson' },
    signal: leave.signal,
  });
  leave.abort();
  await eventually(async () => (await goneOf())[1]?.includes('d.csv'));
  await agent.call(`/v1/chats/${id}/files/c.csv`, { method: 'DELETE' });
  expect((await goneOf())[3]).toEqual(['c.csv']);
  const { box } = (await agent.send<Chat>('GET', `/v1/chats/${id}`)).body;
  await agent.gateway.client.commands.run(String(box), { command: 'rm a.csv' });
  expect((await goneOf())[5]).toEqual([]);
  expect((await agent.call(anew[0]?.url ?? '', { key: '' })).status).toBe(404);
  expect((await goneOf())[5]).toEqual(['a.csv']);
});

test('the files of a lost box are marked as gone, and those of the new box are not', async () => {
  const { id } = await agent.createChat();
  model.script(runs('open("old.csv", "w").write("1")'), { text: 'Made.' });
  await whole(id, 'go');
  const { box } = (await agent.send<Chat>('GET', `/v1/chats/${id}`)).body;
  await agent.gateway.client.boxes.delete(String(box));
  model.script(runs('open("new.csv", "w").write("1")'), { text: 'Made.' });
  await whole(id, 'again');
  const { items } = (await agent.send<Page<Message>>('GET', `/v1/chats/${id}/messages`)).body;
  expect([items[1]?.files, items[3]?.files]).toMatchObject([
    [{ path: 'old.csv', isGone: true }],
    [{ path: 'new.csv' }],
  ]);
  expect(items[3]?.files[0]?.isGone).toBeUndefined();
});
