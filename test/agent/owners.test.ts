import { once } from 'node:events';
import { createServer, type IncomingMessage, request } from 'node:http';
import type { AddressInfo } from 'node:net';
import pg from 'pg';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { Chat, Message, Page, Uploaded } from '#contract';
import { isOwnCookie } from '../../services/gateway/http/ports/cookie.ts';
import { databaseUrl } from '../api/harness.ts';
import { type RunningAgent, startAgent } from './agent-harness.ts';

/** A model that records the key and the question of each request. */
const requests: { key: string; question: string }[] = [];
const model = createServer(async (req, res) => {
  let body = '';
  for await (const chunk of req) body += chunk;
  const key = (req.headers.authorization ?? '').replace('Bearer ', '');
  requests.push({ key, question: JSON.parse(body || '{}').messages?.at(-1)?.content ?? '' });
  res.writeHead(200, { 'content-type': 'text/event-stream' });
  const chunk = { id: 'c', object: 'chat.completion.chunk', choices: [{ index: 0, delta: { content: 'Yes.' } }] };
  const end = { ...chunk, choices: [{ index: 0, delta: {}, finish_reason: 'stop' }] };
  res.end(`data: ${JSON.stringify(chunk)}\n\ndata: ${JSON.stringify(end)}\n\ndata: [DONE]\n\n`);
});
let agent: RunningAgent;
let otherKey: string;
beforeAll(async () => {
  model.listen(0, '127.0.0.1');
  await once(model, 'listening');
  agent = await startAgent({
    OPENAI_BASE_URL: `http://127.0.0.1:${(model.address() as AddressInfo).port}/v1`,
    OPENAI_API_KEY: 'sk-configured',
    CODEBOX_MODEL: 'openai/any',
    CODEBOX_LOG_LEVEL: 'trace',
  });
  otherKey = await agent.gateway.addTenant();
});
afterAll(async () => {
  await agent?.dispose();
  model.close();
});

interface Person {
  key: string;
  headers: Record<string, string>;
}

const as =
  (person: Person) =>
  async (path: string, init: RequestInit = {}) =>
    await agent.call(path, { ...init, key: person.key, headers: { ...init.headers, ...person.headers } });
const newVisitor = async (): Promise<Person> => {
  const response = await agent.call('/v1/chats', { key: '' });
  return { key: '', headers: { cookie: response.headers.get('set-cookie')?.split(';')[0] ?? '' } };
};

/** `fetch` sets these headers itself. */
const raw = (path: string, headers: Record<string, string>, method = 'POST'): Promise<IncomingMessage> =>
  new Promise((done, failed) => {
    const sent = request(`${agent.url}${path}`, { method, headers }, (response) => {
      response.resume();
      done(response);
    });
    sent.on('error', failed);
    sent.end(method === 'POST' ? '{}' : undefined);
  });

test('each owner can access only their own chats, in lists, by id, and in files, answers and tickets', async () => {
  const app = { key: agent.gateway.key, headers: {} };
  const people: Person[] = [
    app,
    { ...app, headers: { 'x-codebox-user': 'ann' } },
    { ...app, headers: { 'x-codebox-user': 'bob' } },
    { key: otherKey, headers: {} },
    { key: otherKey, headers: { 'x-codebox-user': 'ann' } },
    await newVisitor(),
    await newVisitor(),
  ];
  const chats = await Promise.all(
    people.map(async (person, index) => {
      const body = JSON.stringify({ title: `of ${index}` });
      const { id } = (await (await as(person)('/v1/chats', { method: 'POST', body })).json()) as Chat;
      const put = await as(person)(`/v1/chats/${id}/files/mine.txt`, { method: 'PUT', body: `file of ${index}` });
      expect(put.status).toBe(200);
      const posted = await as(person)(`/v1/chats/${id}/messages`, { method: 'POST', body: '{"content":"hi"}' });
      return { id, file: (await put.json()) as Uploaded, answer: (await posted.json()) as Message };
    }),
  );
  for (const [index, person] of people.entries()) {
    const listed = (await (await as(person)('/v1/chats')).json()) as Page<Chat>;
    expect(listed.items.map(({ id }) => id)).toEqual([chats[index]?.id]);
    for (const [other, chat] of chats.entries()) {
      const own = index === other;
      const at = `/v1/chats/${chat.id}`;
      const reads = [at, `${at}/messages`, `${at}/files`, `${at}/files/mine.txt`, `${at}/messages/${chat.answer.id}`];
      for (const path of reads) expect((await as(person)(path)).status, `${index} ${path}`).toBe(own ? 200 : 404);
      if (own) continue;
      const posts = [`${at}/tickets`, `${at}/stop`, `${at}/messages/${chat.answer.id}/events`];
      for (const path of posts.slice(0, 2)) expect((await as(person)(path, { method: 'POST' })).status, path).toBe(404);
      const writes = [
        ['POST', `${at}/messages`, '{"content":"x"}'],
        ['POST', `${at}/cells`, '{"code":"1"}'],
        ['PUT', `${at}/files/mine.txt`, 'x'],
        ['PATCH', at, '{"title":"x"}'],
        ['GET', posts[2] ?? ''],
        ['GET', `${at}/cells/exe-a2b3c4d5e6f7g2h3i4j5k6l7m2/events`],
      ] as const;
      for (const [method, path, body] of writes)
        expect((await as(person)(path, { method, ...(body && { body }) })).status, `${method} ${path}`).toBe(404);
      await as(person)(at, { method: 'DELETE' });
    }
  }
  for (const [index, chat] of chats.entries())
    expect(await (await agent.call(chat.file.url, { key: '' })).text()).toBe(`file of ${index}`);
  for (const [index, person] of people.entries())
    expect((await as(person)(`/v1/chats/${chats[index]?.id}`, { method: 'DELETE' })).status).toBe(204);
  expect(chats.some(({ file }) => file.url.includes(otherKey.slice(4, 40)))).toBe(false);
});

test('an unknown key is refused, and a visitor is identified by an HttpOnly cookie', async () => {
  expect((await agent.call('/v1/chats', { key: 'cbx_wrong' })).status).toBe(401);
  const first = await agent.call('/v1/chats', { key: '' });
  expect(first.headers.get('set-cookie')).toMatch(/^codebox-visitor=[\w-]{43};.*HttpOnly; SameSite=Lax$/);
  const visitor = await newVisitor();
  expect((await as(visitor)('/v1/chats')).headers.get('set-cookie')).toBeNull();
  const named = { key: '', headers: { ...visitor.headers, 'x-codebox-user': 'ann' } };
  await as(visitor)('/v1/chats', { method: 'POST', body: '{}' });
  expect(((await (await as(named)('/v1/chats')).json()) as Page<Chat>).items).toHaveLength(1);
});

test('the visitor cookie is withheld from servers in boxes, and over TLS protected from sibling hosts', async () => {
  const byTls = { 'x-forwarded-proto': 'https' };
  const cookieOf = async (headers: Record<string, string>) =>
    (await raw('/v1/chats', headers, 'GET')).headers['set-cookie']?.[0] ?? '';
  const [plain, secure] = [await cookieOf({}), await cookieOf(byTls)];
  expect(secure).toMatch(/^__Host-codebox-visitor=[\w-]{43};.*Path=\/;.*Secure/);
  for (const cookie of [plain, secure]) expect(isOwnCookie(cookie)).toBe(true);
  const pairOf = (cookie: string) => cookie.split(';')[0] ?? '';
  expect(await cookieOf({ ...byTls, cookie: pairOf(secure) })).toBe('');
  // A sibling host could have set this one.
  expect(await cookieOf({ ...byTls, cookie: pairOf(plain) })).toMatch(/^__Host-/);
});

test('requests from another site or a rebound host name are refused', async () => {
  const { cookie = '' } = (await newVisitor()).headers;
  const host = new URL(agent.url).host;
  const status = async (headers: Record<string, string>, method = 'POST') =>
    (await raw('/v1/chats', { cookie, ...headers }, method)).statusCode;
  expect(await status({ origin: agent.url })).toBe(201);
  expect(await status({ origin: agent.url, 'sec-fetch-site': 'same-origin' })).toBe(201);
  expect(await status({ origin: 'https://evil.example' })).toBe(403);
  expect(await status({ origin: 'null' })).toBe(403);
  expect(await status({ 'sec-fetch-site': 'cross-site', origin: agent.url })).toBe(403);
  expect(await status({ host: `evil.example:${host.split(':')[1]}` })).toBe(403);
  expect(await status({ host: 'evil.example' }, 'GET')).toBe(403);
  expect(await status({ host: `localhost:${host.split(':')[1]}` }, 'GET')).toBe(200);
});

test('a model key is used for its own request only, and is neither logged nor stored', async () => {
  const chat = await agent.createChat();
  const post = async (content: string, headers: Record<string, string>) =>
    await agent.call(`/v1/chats/${chat.id}/messages`, { method: 'POST', body: JSON.stringify({ content }), headers });
  const other = await agent.createChat();
  requests.length = 0;
  const [mine] = await Promise.all([
    post('with mine', { 'x-model-key': 'sk-secret-of-ann' }),
    agent.call(`/v1/chats/${other.id}/messages`, { method: 'POST', body: '{"content":"with theirs"}' }),
  ]);
  expect(((await mine.json()) as Message).content).toBe('Yes.');
  await post('again without', {});
  expect(requests.map(({ key, question }) => `${question}: ${key}`).sort()).toEqual([
    'again without: sk-configured',
    'with mine: sk-secret-of-ann',
    'with theirs: sk-configured',
  ]);
  expect(agent.output()).not.toContain('sk-secret-of-ann');
  expect(agent.output()).not.toContain(agent.gateway.key);
  const db = new pg.Client({ connectionString: await databaseUrl(agent.gateway.dataDir) });
  await db.connect();
  for (const table of ['chats', 'messages', 'blobs', 'secrets']) {
    const { rows } = await db.query(`select * from agent.${table}`);
    expect(JSON.stringify(rows), table).not.toContain('sk-secret-of-ann');
    expect(JSON.stringify(rows), table).not.toContain(agent.gateway.key);
  }
  await db.end();
});

test('a read-only key cannot ask, run or write, and a closed agent accepts no visitors', async () => {
  const chat = await agent.createChat();
  const { makeKey } = await import('../../services/gateway/http/admission/auth.ts');
  const { key, id, hash } = makeKey();
  const db = new pg.Client({ connectionString: await databaseUrl(agent.gateway.dataDir) });
  await db.connect();
  const tenant = (await agent.gateway.client.caller()).tenant;
  await db.query('insert into api_keys (id, tenant_id, hash, name, scopes) values ($1, $2, $3, $4, $5)', [
    id,
    tenant,
    hash,
    'reader',
    JSON.stringify(['boxes:read']),
  ]);
  await db.end();
  const reader = as({ key, headers: {} });
  expect((await reader(`/v1/chats/${chat.id}`)).status).toBe(200);
  for (const path of ['messages', 'cells', 'tickets', 'stop'])
    expect((await reader(`/v1/chats/${chat.id}/${path}`, { method: 'POST', body: '{}' })).status, path).toBe(403);
  expect((await reader(`/v1/chats/${chat.id}/files/x`, { method: 'PUT', body: 'x' })).status).toBe(403);

  await agent.stop();
  await agent.restart({ CODEBOX_AGENT_OPEN: '0' });
  expect((await agent.call('/v1/chats', { key: '' })).status).toBe(401);
  expect((await agent.send('GET', '/v1/info')).body).toMatchObject({ isOpen: false });
});
