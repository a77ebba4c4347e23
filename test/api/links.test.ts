import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Box, CreatedLink, CreateLink, FileEntry, Link, Problem } from '#contract';
import { keyId, makeKey } from '../../services/gateway/http/admission/auth.ts';
import { openStore } from '../../services/gateway/store/store.ts';
import { anyDriver, databaseUrl, eventually, type RunningGateway, startGateway } from './harness.ts';

describe.each(anyDriver)('links to files on the %s driver', (driver) => {
  let gateway: RunningGateway;
  let box: Box;
  beforeAll(async () => {
    gateway = await startGateway(driver);
    box = await gateway.createBox();
    await put('table.csv', 'x,y\n1,2\n');
  });
  afterAll(() => gateway?.dispose());

  const put = (path: string, body: string, id = box.id) =>
    gateway.call(`/v1/boxes/${id}/files/${path}`, { method: 'PUT', body });
  const read = async (path: string) => await (await gateway.call(`/v1/boxes/${box.id}/files/${path}`)).text();
  const make = async (ask: CreateLink, id = box.id): Promise<CreatedLink> => {
    const { status, body } = await gateway.post<CreatedLink>(`/v1/boxes/${id}/links`, ask);
    expect(status).toBe(201);
    return body;
  };
  /** Uses a link as those who have it do: without a key. */
  const use = (url: string, init: RequestInit = {}) => fetch(gateway.url + url, init);
  const statusOf = async (url: string, init?: RequestInit) => {
    const response = await use(url, init);
    await response.body?.cancel();
    return response.status;
  };

  test('a link reads its file without a key, with HEAD, ranges and conditions, until it expires', async () => {
    const { url, id, ...link } = await make({ path: 'table.csv', download: 'wörk.csv' });
    expect(link).toMatchObject({ box: box.id, method: 'GET', once: false, maxBytes: null, usedAt: null });
    const whole = await use(url);
    expect([whole.status, await whole.text()]).toEqual([200, 'x,y\n1,2\n']);
    const head = await use(url, { method: 'HEAD' });
    expect([head.status, head.headers.get('content-length')]).toEqual([200, '8']);
    const part = await use(url, { headers: { range: 'bytes=4-6' } });
    expect([part.status, part.headers.get('content-range'), await part.text()]).toEqual([206, 'bytes 4-6/8', '1,2']);
    expect(await statusOf(url, { headers: { range: 'bytes=99-' } })).toBe(416);
    expect(await statusOf(url, { headers: { 'if-none-match': head.headers.get('etag') ?? '' } })).toBe(304);
    expect(whole.headers.get('content-disposition')).toContain("filename*=UTF-8''w%C3%B6rk.csv");
    const listed = (await gateway.get<{ items: Link[] }>(`/v1/boxes/${box.id}/links`)).body.items;
    expect(listed.find((one) => one.id === id)).toEqual({ id, ...link });
    const short = await make({ path: 'table.csv', expiresInSeconds: 1 });
    await eventually(async () => (await statusOf(short.url)) === 410);
  });

  test('a hostile page cannot run in the origin of the gateway', async () => {
    await put('evil.html', '<script>fetch("/v1/boxes")</script>');
    const { headers } = await use((await make({ path: 'evil.html' })).url);
    expect(Object.fromEntries(headers)).toMatchObject({
      'content-type': 'application/octet-stream',
      'content-disposition': expect.stringMatching(/^attachment/),
      'content-security-policy': 'sandbox',
      'x-content-type-options': 'nosniff',
      'referrer-policy': 'no-referrer',
      'cache-control': 'private, no-store',
    });
  });

  test('a link that is valid once gives its content to one of many, and HEAD does not use it up', async () => {
    const { url, id } = await make({ path: 'table.csv', once: true });
    expect(await statusOf(url, { method: 'HEAD' })).toBe(200);
    const all = await Promise.all(Array.from({ length: 20 }, () => use(url)));
    expect(all.map(({ status }) => status).sort()).toEqual([200, ...Array.from({ length: 19 }, () => 410)]);
    expect(await all.find(({ status }) => status === 200)?.text()).toBe('x,y\n1,2\n');
    const again = await use(url, { method: 'HEAD' });
    expect(again.status).toBe(410);
    const listed = (await gateway.get<{ items: Link[] }>(`/v1/boxes/${box.id}/links`)).body.items;
    expect(listed.find((one) => one.id === id)?.usedAt).not.toBeNull();
    const missing = await make({ path: 'later.txt', once: true });
    expect(await statusOf(missing.url)).toBe(404);
    await put('later.txt', 'now');
    expect(await (await use(missing.url)).text()).toBe('now');
  });

  test('a link to write takes one file of up to its size, as a whole or not at all', async () => {
    const { url } = await make({ path: 'in/up.bin', method: 'PUT', once: true, maxBytes: 10 });
    expect(await statusOf(url, { method: 'PUT', body: 'x'.repeat(11) })).toBe(413);
    const chunks = new ReadableStream<Uint8Array>({
      async start(controller) {
        for (let n = 0; n < 4; n++) controller.enqueue(new TextEncoder().encode('abcd'));
        controller.close();
      },
    });
    const endless = await use(url, { method: 'PUT', body: chunks, duplex: 'half' } as RequestInit);
    expect([endless.status, ((await endless.json()) as Problem).code]).toEqual([413, 'too_large']);
    expect((await gateway.call(`/v1/boxes/${box.id}/files/in/up.bin`)).status).toBe(404);
    const broken = new ReadableStream<Uint8Array>({
      start(controller) {
        controller.enqueue(new TextEncoder().encode('abcd'));
        setTimeout(() => controller.error(new Error('the upload breaks off')), 200);
      },
    });
    await expect(use(url, { method: 'PUT', body: broken, duplex: 'half' } as RequestInit)).rejects.toThrow();
    const written = await eventually(async () => {
      const response = await use(url, { method: 'PUT', body: '0123456789' });
      return response.status !== 410 && response;
    });
    expect([written.status, ((await written.json()) as FileEntry).path]).toEqual([201, 'in/up.bin']);
    expect(await read('in/up.bin')).toBe('0123456789');
    expect(await statusOf(url, { method: 'PUT', body: 'again' })).toBe(410);
    expect(await read('in/up.bin')).toBe('0123456789');
  });

  test('a link is for its method, its file and nothing else', async () => {
    const [get, write] = [await make({ path: 'table.csv' }), await make({ path: 'w', method: 'PUT' })];
    expect(await statusOf(get.url, { method: 'PUT', body: 'x' })).toBe(405);
    expect((await use(get.url, { method: 'PUT', body: 'x' })).headers.get('allow')).toBe('GET, HEAD');
    expect((await use(write.url)).headers.get('allow')).toBe('PUT');
    expect(await statusOf(get.url, { method: 'DELETE' })).toBe(405);
    expect(await statusOf(write.url)).toBe(405);
    expect(await statusOf(`${get.url}/../../boxes`)).toBe(401);
    expect(await statusOf(`${get.url}/other`)).toBe(404);
    expect(await statusOf(`${get.url}?path=/etc/passwd`)).toBe(400);
    const token = get.url.split('/').at(-1) ?? '';
    for (const wrong of [`${token.slice(0, -1)}${token.endsWith('A') ? 'B' : 'A'}`, token.slice(0, -1), 'lnk_', get.id])
      expect(await statusOf(`/v1/links/${wrong}`)).toBe(401);
    for (const headers of [{ authorization: `Bearer ${token}` }, { 'x-api-key': token }])
      expect(await statusOf(`/v1/boxes/${box.id}/files/table.csv`, { headers })).toBe(401);
    expect(await statusOf('/v1/boxes')).toBe(401);
    await gateway.post(`/v1/boxes/${box.id}/files`, { op: 'mkdir', path: 'folder' });
    expect(await statusOf((await make({ path: 'folder' })).url)).toBe(404);
  });

  test('a link that makes no sense is refused with a pointer to the field', async () => {
    const fault = async (ask: unknown) => {
      const { status, body } = await gateway.post<Problem>(`/v1/boxes/${box.id}/links`, ask);
      return [status, body.errors?.[0]?.pointer];
    };
    for (const path of ['../x', '/etc/passwd', 'a/../../b', 'a//b', '', 'a\0b'])
      expect(await fault({ path })).toEqual([400, '/path']);
    expect(await fault({ path: 'mnt/data/x', method: 'PUT' })).toEqual([400, '/path']);
    expect(await fault({ path: 'x', method: 'DELETE' })).toEqual([400, '/method']);
    expect(await fault({ path: 'x', expiresInSeconds: 604_801 })).toEqual([400, '/expiresInSeconds']);
    expect(await fault({ path: 'x', maxBytes: 1 })).toEqual([400, '/maxBytes']);
    expect(await fault({ path: 'x', method: 'PUT', download: 'y' })).toEqual([400, '/download']);
    expect(await fault({ path: 'x', download: 'a\r\nb' })).toEqual([400, '/download']);
  });

  test('only the tenant of a box makes, lists and revokes its links', async () => {
    const { id, url } = await make({ path: 'table.csv' });
    const authorization = `Bearer ${await gateway.addTenant()}`;
    const path = `/v1/boxes/${box.id}/links`;
    expect((await gateway.post(path, { path: 'table.csv' }, { authorization })).status).toBe(404);
    expect(await statusOf(path, { headers: { authorization } })).toBe(404);
    expect(await statusOf(`${path}/${id}`, { method: 'DELETE', headers: { authorization } })).toBe(404);
    expect(await statusOf(url)).toBe(200);
    expect((await gateway.call(`${path}/${id}`, { method: 'DELETE' })).status).toBe(204);
    expect(await statusOf(url)).toBe(401);
    expect((await gateway.call(`${path}/${id}`, { method: 'DELETE' })).status).toBe(404);
  });

  test('a link ends with the key that made it', async () => {
    const store = await openStore(await databaseUrl(gateway.dataDir), () => {});
    const { tenantId } = (await store.keys.find(keyId(gateway.key) ?? '')) ?? { tenantId: '' };
    const { key, id, hash } = makeKey();
    await store.keys.add({ id, hash, tenantId, name: 'second' });
    const { body } = await gateway.post<CreatedLink>(
      `/v1/boxes/${box.id}/links`,
      { path: 'table.csv' },
      { authorization: `Bearer ${key}` },
    );
    expect(await statusOf(body.url)).toBe(200);
    await store.keys.revoke(id);
    await store.close();
    await eventually(async () => (await statusOf(body.url)) === 401);
  });

  test('a link restores a hibernated box, and ends with its box', async () => {
    const own = await gateway.createBox();
    await put('kept.txt', 'kept', own.id);
    const { url } = await make({ path: 'kept.txt' }, own.id);
    expect((await gateway.post(`/v1/boxes/${own.id}/hibernate`, {})).status).toBe(200);
    expect(await (await use(url)).text()).toBe('kept');
    await gateway.client.boxes.delete(own.id);
    await eventually(async () => (await statusOf(url)) === 410);
    expect((await gateway.post(`/v1/boxes/${own.id}/links`, { path: 'x' })).status).toBe(410);
  });
});
