import { createHash } from 'node:crypto';
import { mkdir, symlink, unlink } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { Readable } from 'node:stream';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { Attachment, Chat, ChatEntry, Page, Uploaded } from '#contract';
import { eventually, memoryOf } from '../api/harness.ts';
import { adminKey, makeTenant } from '../api/operator.ts';
import { type AgentProcess, startAgentProcess } from './agent-harness.ts';

const megabyte = 1024 * 1024;
let agent: AgentProcess;
let chat: string;
beforeAll(async () => {
  agent = await startAgentProcess({}, { CODEBOX_ADMIN_KEY: adminKey });
  chat = (await agent.createChat()).id;
});
afterAll(() => agent?.dispose());

const put = async (path: string, body: string): Promise<Uploaded> => {
  const response = await agent.call(`/v1/chats/${chat}/files/${path}`, { method: 'PUT', body });
  return (await response.json()) as Uploaded;
};
/** Requests a link without a key, as a browser does. */
const follow = (url: string, init: RequestInit = {}) => agent.call(url, { ...init, key: '' });

test('200 MB are uploaded and downloaded unchanged while the agent grows by less than 64 MB', async () => {
  const block = Buffer.alloc(megabyte, 'codebox ');
  const total = 200 * megabyte;
  const blocks = function* () {
    for (let sent = 0; sent < total; sent += megabyte) yield block;
  };
  await put('small.txt', 'x');
  const before = await memoryOf(agent.pid());
  const body = Readable.toWeb(Readable.from(blocks())) as ReadableStream;
  const init = { method: 'PUT', body, duplex: 'half' } as RequestInit;
  const up = (await (await agent.call(`/v1/chats/${chat}/files/big.bin`, init)).json()) as Uploaded;
  expect(up).toMatchObject({ path: 'big.bin', sizeBytes: total, preview: null });
  const hash = createHash('sha256');
  const down = await follow(up.url);
  expect(down.headers.get('content-length')).toBe(String(total));
  for await (const chunk of down.body ?? []) hash.update(chunk as Uint8Array);
  const expected = createHash('sha256');
  for (const piece of blocks()) expected.update(piece);
  expect(hash.digest('hex')).toBe(expected.digest('hex'));
  const after = await memoryOf(agent.pid());
  expect((after.peak - before.now) / megabyte).toBeLessThan(64);
  await agent.call(`/v1/chats/${chat}/files/big.bin`, { method: 'DELETE' });
});

test('an upload of a table returns its columns and types but no values, without using the variables of the chat', async () => {
  const csv = await put(
    'people.csv',
    'name,age,born,ratio,member\nAlice Secret,41,1983-05-01,0.5,true\nBob,7,2017-01-02,1,false\n',
  );
  expect(csv.preview).toBe('Columns: name (text), age (integer), born (date), ratio (number), member (boolean)');
  const json = await put('rows.json', JSON.stringify([{ a: 1, b: 'x', c: [1] }, { a: 2.5 }]));
  expect(json.preview).toBe('Columns: a (number), b (text), c (list)');
  const make =
    'import openpyxl\nbook = openpyxl.Workbook()\nbook.active.append(["city", "people"])\nbook.active.append(["Rome", 3])\nbook.save("cities.xlsx")';
  await agent.send('POST', `/v1/chats/${chat}/cells`, { code: make });
  const sheet = await (await agent.call(`/v1/chats/${chat}/files/cities.xlsx`)).arrayBuffer();
  const again = await agent.call(`/v1/chats/${chat}/files/again.xlsx`, { method: 'PUT', body: sheet });
  expect(((await again.json()) as Uploaded).preview).toBe('Columns: city (text), people (integer)');
  const cell = await agent.send('POST', `/v1/chats/${chat}/cells`, { code: '"columns" in globals()' });
  expect(cell.body.text).toBe('False');
});

test('a file that is no valid table is uploaded without a preview', async () => {
  expect(await put('broken.json', '{"a":')).toMatchObject({ sizeBytes: 5, preview: null });
  expect(await put('empty.csv', '')).toMatchObject({ sizeBytes: 0, preview: null });
  expect(await put('notes.txt', 'a,b\n1,2\n')).toMatchObject({ preview: null });
});

test('many files can be uploaded at once, and are listed with links that work without a key', async () => {
  const form = new FormData();
  form.append('file', new Blob(['one']), 'many/1.txt');
  form.append('file', new Blob(['two']), 'many/2.csv');
  const up = await agent.call(`/v1/chats/${chat}/files`, { method: 'POST', body: form });
  expect(((await up.json()) as { items: Uploaded[] }).items.map(({ path }) => path)).toEqual([
    'many/1.txt',
    'many/2.csv',
  ]);
  const listed = (await agent.send<Page<ChatEntry>>('GET', `/v1/chats/${chat}/files?path=many`)).body.items;
  expect(listed.map(({ name, sizeBytes }) => [name, sizeBytes])).toEqual([
    ['1.txt', 3],
    ['2.csv', 3],
  ]);
  expect(await (await follow(listed[0]?.url ?? '')).text()).toBe('one');
  const part = await follow(listed[1]?.url ?? '', { headers: { range: 'bytes=1-1' } });
  expect([part.status, await part.text()]).toEqual([206, 'w']);
});

test('a file whose name is not UTF-8 is listed with a link, and can be deleted', async () => {
  await agent.send('POST', `/v1/chats/${chat}/cells`, {
    code: 'import os; os.mkdir("bytes"); open(b"bytes/caf\\xe9", "w").write("tea")',
  });
  const list = async () => (await agent.send<Page<ChatEntry>>('GET', `/v1/chats/${chat}/files?path=bytes`)).body.items;
  const [entry] = await list();
  expect(entry).toMatchObject({ name: 'caf\ufffd', encodedPath: 'bytes/caf%E9', expiresAt: expect.any(String) });
  expect(await (await follow(entry?.url ?? '')).text()).toBe('tea');
  const url = `/v1/chats/${chat}/files/${entry?.encodedPath}`;
  expect(await (await agent.call(url)).text()).toBe('tea');
  expect((await agent.call(url, { method: 'DELETE' })).status).toBe(204);
  expect(await list()).toEqual([]);
});

test('the link of a file works however long its path is', async () => {
  const folders = Array.from({ length: 15 }, () => 'd'.repeat(254));
  const path = [...folders, `${'"'.repeat(254 - 4)}.txt`].join('/');
  const { url } = await put(path.replaceAll('"', '%22'), 'far away');
  expect(await (await follow(url)).text()).toBe('far away');
});

test('an uploaded file is never served as a page, whatever its name', async () => {
  const name = `${encodeURIComponent('"<img src=x onerror=alert(1)>文件')}.html`;
  const page = await put(name, '<script>alert(1)</script>');
  const shown = await follow(page.url);
  expect(shown.headers.get('content-disposition')).toMatch(/^attachment; filename="/);
  expect(shown.headers.get('content-security-policy')).toContain('sandbox');
  expect(shown.headers.get('x-content-type-options')).toBe('nosniff');
  const svg = await follow((await put('a.svg', '<svg xmlns="http://www.w3.org/2000/svg"/>')).url);
  expect(svg.headers.get('content-disposition')).toMatch(/^attachment/);
  const png = await follow((await put('a.png', '<script>alert(1)</script>')).url);
  expect([png.headers.get('content-type'), png.headers.get('content-disposition')]).toEqual(['image/png', 'inline']);
  for (const path of ['..%2fsecret', '%2fetc%2fpasswd', 'a//b'])
    expect((await agent.call(`/v1/chats/${chat}/files/${path}`, { method: 'PUT', body: 'x' })).status).toBe(400);
});

test('a stored copy outlives its box, and is deleted with its chat', async () => {
  const other = (await agent.createChat()).id;
  await agent.call(`/v1/chats/${other}/files/out.csv`, { method: 'PUT', body: 'a\n1\n' });
  const kept = (await agent.send<Attachment>('POST', `/v1/chats/${other}/artifacts`, { path: 'out.csv' })).body;
  const box = (await agent.send('GET', `/v1/chats/${other}`)).body.box;
  await agent.gateway.client.boxes.delete(String(box));
  expect(await (await follow(kept.url)).text()).toBe('a\n1\n');
  expect((await agent.send('GET', `/v1/chats/${other}/files`)).body.items).toEqual([]);
  expect((await agent.call(`/v1/chats/${other}/files/out.csv`)).status).toBe(410);
  expect((await agent.send('GET', `/v1/chats/${other}`)).body.box).toBe(box);
  await agent.call(`/v1/chats/${other}`, { method: 'DELETE' });
  expect((await follow(kept.url)).status).toBe(404);
});

test('links to files and to stored copies end with their key or tenant', async () => {
  const makeLinks = async () => {
    const { admin, tenant, key, client } = await makeTenant(agent.gateway);
    const as = (path: string, init: RequestInit) => agent.call(path, { ...init, key });
    const { id } = (await (await as('/v1/chats', { method: 'POST', body: '{}' })).json()) as Chat;
    const put = await as(`/v1/chats/${id}/files/a.txt`, { method: 'PUT', body: 'mine' });
    const copy = await as(`/v1/chats/${id}/artifacts`, { method: 'POST', body: '{"path":"a.txt"}' });
    const urls = [(await put.json()) as Uploaded, (await copy.json()) as Attachment].map(({ url }) => url);
    const open = async () => await Promise.all(urls.map(async (url) => (await follow(url)).status));
    expect(await open()).toEqual([200, 200]);
    for await (const box of client.boxes.list()) await client.boxes.delete(box.id);
    return { admin, tenant, open };
  };
  const revoked = await makeLinks();
  for await (const { id } of revoked.admin.keys.list({ tenant: revoked.tenant.id }))
    await revoked.admin.keys.revoke(id);
  await eventually(async () => String(await revoked.open()) === '401,401', 15_000);
  // However often a dead link is followed, the gateway does not mistake the agent for a client that guesses keys.
  for (let i = 0; i < 100; i += 1) expect(await revoked.open()).toEqual([401, 401]);
  const suspended = await makeLinks();
  await suspended.admin.tenants.update(suspended.tenant.id, { state: 'suspended' });
  await eventually(async () => String(await suspended.open()) === '403,403', 15_000);
  for (const { admin, tenant } of [revoked, suspended]) await admin.tenants.delete(tenant.id);
});

test('a copy of a file beyond the limit is refused', async () => {
  const other = (await agent.createChat()).id;
  await agent.send('POST', `/v1/chats/${other}/cells`, { code: 'open("huge", "wb").truncate(101 * 2**20)' });
  expect((await agent.send('POST', `/v1/chats/${other}/artifacts`, { path: 'huge' })).status).toBe(413);
  await agent.send('DELETE', `/v1/chats/${other}`);
});

test('stored copies are limited per chat and per owner, and deleted ones make room', async () => {
  await agent.stop();
  await agent.restart({ CODEBOX_KEPT_CHAT_MB: '2', CODEBOX_KEPT_MB: '3' });
  const headers = { 'x-codebox-user': 'keeper' };
  const newChat = async () => (await agent.send<Chat>('POST', '/v1/chats', {}, headers)).body.id;
  const [one, two] = [await newChat(), await newChat()];
  const body = Buffer.alloc(1.5 * megabyte);
  for (const id of [one, two]) await agent.call(`/v1/chats/${id}/files/a.bin`, { method: 'PUT', body, headers });
  const keep = (id: string) => agent.send('POST', `/v1/chats/${id}/artifacts`, { path: 'a.bin' }, headers);
  // A copy that cannot be stored takes no room.
  const [{ value: deployment } = {}] = await agent.query("select value from agent.secrets where name = 'deployment'");
  const folder = join(agent.gateway.dataDir, 'blobs', String(deployment), one);
  await mkdir(dirname(folder), { recursive: true });
  await symlink('/proc/1', folder);
  for (let n = 0; n < 2; n++) expect((await keep(one)).status).toBe(503);
  await unlink(folder);
  expect((await keep(one)).status).toBe(201);
  expect(await keep(one)).toMatchObject({ status: 413, body: { detail: expect.stringContaining('at most 2 MiB') } });
  expect((await keep(two)).status).toBe(201);
  await agent.call(`/v1/chats/${two}/files/b.bin`, { method: 'PUT', body: 'b', headers });
  const small = () => agent.send('POST', `/v1/chats/${two}/artifacts`, { path: 'b.bin' }, headers);
  expect(await small()).toMatchObject({ status: 413, body: { detail: expect.stringContaining('at most 3 MiB') } });
  await agent.call(`/v1/chats/${one}`, { method: 'DELETE', headers });
  expect((await small()).status).toBe(201);
  await agent.call(`/v1/chats/${two}`, { method: 'DELETE', headers });
});

test('a forged link is a 404, and an expired one a 410', async () => {
  const { url } = await put('linked.txt', 'x');
  const [, , , token = ''] = url.split('/');
  const changed = `${token.slice(0, 40)}${token[40] === 'A' ? 'B' : 'A'}${token.slice(41)}`;
  expect((await follow(`/v1/files/${changed}/linked.txt`)).status).toBe(404);
  await agent.stop();
  await agent.restart({ CODEBOX_LINK_SECONDS: '1' });
  expect((await follow(url)).status).toBe(200);
  const short = await put('short.txt', 'x');
  expect(Date.parse(short.expiresAt) - Date.now()).toBeLessThan(1500);
  await new Promise((done) => setTimeout(done, 1100));
  expect((await follow(short.url)).status).toBe(410);
});
