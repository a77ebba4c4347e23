import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Box, FileEntry, Problem } from '#contract';
import { anyDriver, drivers, type GatewayProcess, mainDriver, memoryOf, startGatewayProcess } from './harness.ts';

const megabyte = 1024 * 1024;

describe.each(drivers)('file operations on the %s driver', (driver) => {
  // These tests do not depend on the driver.
  const testOnce = anyDriver.includes(driver) ? test : () => {};
  const testOnMain = mainDriver.includes(driver) ? test : () => {};
  let gateway: GatewayProcess;
  let box: Box;
  beforeAll(async () => {
    gateway = await startGatewayProcess(driver);
    box = await gateway.createBox({ limits: { diskMb: 3000 } });
  });
  afterAll(() => gateway?.dispose());

  const files = () => `/v1/boxes/${box.id}/files`;
  const at = (path: string) => `${files()}/${path}`;
  const put = (path: string, body: string | Uint8Array<ArrayBuffer>, headers = {}) =>
    gateway.call(at(path), { method: 'PUT', body, headers });
  const text = async (path: string) => (await gateway.call(at(path))).text();
  const operate = (body: Record<string, unknown>) => gateway.post<FileEntry>(files(), body);
  const refusal = async (body: Record<string, unknown>) => {
    const { status, body: problem } = await gateway.post<Problem>(files(), body);
    return [status, problem.code, problem.errors?.[0]?.pointer];
  };
  const shell = async (command: string) => {
    const { body } = await gateway.post<{ status: string; stdout: string }>(`/v1/boxes/${box.id}/commands`, {
      command,
      timeoutSeconds: 300,
    });
    expect(body.status).toBe('ok');
    return body.stdout;
  };

  testOnce('files can be moved and copied, and nothing is overwritten unless requested', async () => {
    await put('m/a.txt', 'one');
    const moved = await operate({ op: 'move', from: 'm/a.txt', to: 'n/b.txt' });
    expect([moved.status, moved.body.path]).toEqual([200, 'n/b.txt']);
    expect((await gateway.call(at('m/a.txt'))).status).toBe(404);
    const copied = await operate({ op: 'copy', from: 'n', to: 'o/p' });
    expect([copied.status, copied.body.type, await text('o/p/b.txt')]).toEqual([201, 'directory', 'one']);
    expect(await refusal({ op: 'copy', from: 'n', to: 'o/p' })).toEqual([409, 'conflict', '/to']);
    expect(await refusal({ op: 'move', from: 'n', to: 'o/p' })).toEqual([409, 'conflict', '/to']);
    expect((await operate({ op: 'move', from: 'n', to: 'o/p', overwrite: true })).status).toBe(200);
    expect(await refusal({ op: 'move', from: 'gone', to: 'x' })).toEqual([404, 'not_found', '/from']);
    expect(await refusal({ op: 'copy', from: 'o', to: 'o/inside' })).toEqual([400, 'invalid_request', '/to']);
  });

  test.each([
    [{ op: 'move', from: 'a' }, '/to'],
    [{ op: 'move', from: '../a', to: 'b' }, '/from'],
    [{ op: 'copy', from: 'a', to: '/etc/x' }, '/to'],
    [{ op: 'copy', from: 'a', to: 'b', overwrite: 'yes' }, '/overwrite'],
    [{ op: 'extract', path: 'a', format: 'rar' }, '/format'],
    [{ op: 'fetch', url: 'file:///etc/passwd', path: 'a' }, '/url'],
    [{ op: 'fetch', url: 'http://u:p@127.0.0.1/', path: 'a' }, '/url'],
    [{ op: 'fetch', url: 'http://127.0.0.1/', path: 'a', headers: { Host: 'x' } }, '/headers/Host'],
    [{ op: 'fetch', url: 'http://127.0.0.1/', path: 'a', headers: { X: 'a\nb' } }, '/headers/X'],
    [{ op: 'fetch', url: 'http://127.0.0.1/', path: 'a', timeoutSeconds: 0 }, '/timeoutSeconds'],
    [{ op: 'mkdir', path: 'a', to: 'b' }, '/to'],
    [{ op: 'format' }, '/op'],
  ])('%j is refused with a pointer to the field', async (body, pointer) => {
    expect(await refusal(body)).toEqual([400, 'invalid_request', pointer]);
  });

  test('an archive of a folder extracts to the same folder, whatever its names are', async () => {
    await shell(
      `mkdir -p 'src/empty' && cd src && printf 1 > $'new\\nline' && printf 2 > 'q"uo'\\''te' && printf 3 > 😀 && ` +
        `printf 4 > $'raw\\xff' && printf 5 > run.sh && chmod 750 run.sh && ln -s run.sh link`,
    );
    const list = (folder: string) =>
      shell(`cd ${folder} && find . -printf '%P %y %m %s %l\\n' | LC_ALL=C sort | od -c`);
    for (const kind of ['tar', 'zip']) {
      const archive = await gateway.call(`${at('src')}?as=${kind}&download=mine.${kind}`);
      expect(archive.headers.get('content-type')).toBe(kind === 'tar' ? 'application/x-tar' : 'application/zip');
      expect(archive.headers.get('content-disposition')).toContain(`filename="mine.${kind}"`);
      const bytes = new Uint8Array(await archive.arrayBuffer());
      expect(new Uint8Array(await (await gateway.call(`${at('src')}?as=${kind}`)).arrayBuffer())).toEqual(bytes);
      await put(`back.${kind}`, bytes);
      expect((await operate({ op: 'extract', path: `back.${kind}`, to: `back-${kind}` })).status).toBe(201);
      expect(await text(`back-${kind}/${encodeURIComponent('😀')}`)).toBe('3');
      if (kind === 'tar') expect(await list('back-tar')).toBe(await list('src'));
    }
    expect((await gateway.call(`${at('back.tar')}?as=tar`)).status).toBe(400);
    expect((await gateway.call(`${at('')}?as=rar`)).status).toBe(400);
    expect((await gateway.call(`${at('src/empty')}?as=zip`)).status).toBe(200);
  });

  // Far more than a gateway may grow by.
  const partMb = 60;
  testOnMain(`a folder of ${4 * partMb} MB is streamed as one archive in bounded memory`, async () => {
    await shell(`mkdir -p big/part && cd big && truncate -s ${partMb}M 1 2 3 part/4`);
    await gateway.run(box.id, '1');
    const before = await memoryOf(gateway.pid());
    for (const [folder, kind] of [
      ['big', 'tar'],
      ['big/part', 'zip'],
    ] as const) {
      const archive = await gateway.call(`${at(folder)}?as=${kind}`);
      let bytes = 0;
      for await (const chunk of archive.body ?? []) bytes += (chunk as Uint8Array).length;
      if (kind === 'tar') expect(bytes).toBeGreaterThan(4 * partMb * megabyte);
    }
    const after = await memoryOf(gateway.pid());
    expect((after.peak - before.now) / megabyte).toBeLessThan(64);
    expect((await gateway.call(at('big'), { method: 'DELETE' })).status).toBe(204);
  });

  testOnce('files that vanish while they are archived do not break the archive', async () => {
    await shell('mkdir churn; for i in $(seq 200); do head -c 100000 /dev/zero > churn/$i; done');
    const churn = shell(
      'for k in 1 2 3; do for i in $(seq 200); do rm churn/$i; head -c $((i * 400)) /dev/zero > churn/$i; done; done',
    );
    for (const kind of ['tar', 'zip', 'tar']) {
      const archive = new Uint8Array(await (await gateway.call(`${at('churn')}?as=${kind}`)).arrayBuffer());
      await put(`churned.${kind}`, archive);
      const extracted = await operate({ op: 'extract', path: `churned.${kind}`, to: 'churned', overwrite: true });
      expect(extracted.status).toBe(201);
    }
    await churn;
  });

  testOnce('an archive with an entry outside its folder is refused with the name of the entry', async () => {
    const made = [
      'import tarfile, io',
      'with tarfile.open("evil.tar.gz", "w:gz") as tar:',
      '  for name in ("fine.txt", "../../evil.txt"): tar.addfile(tarfile.TarInfo(name))',
    ];
    await gateway.run(box.id, made.join('\n'));
    const refused = await gateway.post<Problem>(files(), { op: 'extract', path: 'evil.tar.gz', to: 'evil' });
    expect([refused.status, refused.body.errors?.[0]?.pointer]).toEqual([400, '/path']);
    expect(refused.body.detail).toContain('../../evil.txt');
    expect((await gateway.call(at('evil'))).status).toBe(404);
  });

  test('a zip bomb is a 507 at the disk limit and leaves no file', async () => {
    const small = await gateway.createBox({ limits: { diskMb: 64 } });
    const made =
      'import zipfile\nwith zipfile.ZipFile("bomb.zip", "w", 8) as z:\n  for i in range(4): z.writestr(f"{i}", bytes(40 << 20))';
    await gateway.run(small.id, made);
    const refused = await gateway.post<Problem>(`/v1/boxes/${small.id}/files`, {
      op: 'extract',
      path: 'bomb.zip',
      to: 'out',
    });
    expect([refused.status, refused.body.code]).toEqual([507, 'disk_full']);
    expect((await gateway.call(`/v1/boxes/${small.id}/files/out`)).status).toBe(404);
    expect((await gateway.run(small.id, 'import os; os.listdir("/mnt/.upload")')).text).toBe('[]');
    await gateway.call(`/v1/boxes/${small.id}`, { method: 'DELETE' });
  });

  test('a URL is fetched by the box itself, so that without a network only its own servers are reachable', async () => {
    await put('www/hello.txt', 'hello');
    const server = await gateway.post<{ id: string }>(`/v1/boxes/${box.id}/commands`, {
      command: 'python3 -m http.server 8123 --bind 127.0.0.1 --directory www',
      detach: true,
    });
    await shell('until (exec 3<>/dev/tcp/127.0.0.1/8123) 2>/dev/null; do sleep 0.05; done');
    const url = 'http://127.0.0.1:8123';
    expect((await operate({ op: 'fetch', url: `${url}/hello.txt`, path: 'in/hello.txt' })).status).toBe(201);
    expect(await text('in/hello.txt')).toBe('hello');
    expect(await refusal({ op: 'fetch', url: `${url}/none`, path: 'x' })).toEqual([400, 'invalid_request', '/url']);
    expect(await refusal({ op: 'fetch', url: `${url}/hello.txt`, path: 'x', maxBytes: 2 })).toEqual([
      413,
      'too_large',
      '/maxBytes',
    ]);
    const away = await gateway.post<Problem>(files(), { op: 'fetch', url: 'https://example.com/', path: 'x' });
    expect([away.status, away.body.errors?.[0]?.pointer]).toEqual([400, '/url']);
    expect(away.body.errors?.[0]?.detail).toContain('network');
    await gateway.call(`/v1/boxes/${box.id}/commands/${server.body.id}`, { method: 'DELETE' });
  });

  testOnce('creating a box without a network from a file by URL is refused before the box is created', async () => {
    const body = {
      files: [
        { path: 'a', text: '' },
        { path: 'b', url: 'https://example.com/' },
      ],
    };
    const refused = await gateway.post<Problem>('/v1/boxes', body);
    expect([refused.status, refused.body.errors?.[0]?.pointer]).toEqual([400, '/files/1/url']);
    const own = await gateway.post<Problem>('/v1/boxes', { files: [{ path: 'b', url: 'http://127.0.0.1:9/' }] });
    expect([own.status, own.body.errors?.[0]?.pointer]).toEqual([400, '/files/0/url']);
  });

  testOnce('conditional and range requests work through the gateway', async () => {
    const etag = (await put('cond.txt', '0123456789')).headers.get('etag') ?? '';
    const get = async (headers: Record<string, string>) => (await gateway.call(at('cond.txt'), { headers })).status;
    const modified = (await gateway.call(at('cond.txt'), { method: 'HEAD' })).headers.get('last-modified') ?? '';
    expect(await get({ 'if-modified-since': modified })).toBe(304);
    expect(await get({ 'if-none-match': `"x", W/${etag}` })).toBe(304);
    expect(await get({ 'if-match': '"x"' })).toBe(412);
    expect(await get({ 'if-unmodified-since': 'Sun, 09 Sep 2001 01:46:40 GMT' })).toBe(412);
    expect(await get({ range: 'bytes=-3', 'if-range': etag })).toBe(206);
    expect(await get({ range: 'bytes=-3', 'if-range': '"x"' })).toBe(200);
    const beyond = await gateway.call(at('cond.txt'), { headers: { range: 'bytes=10-' } });
    expect([beyond.status, beyond.headers.get('content-range')]).toEqual([416, 'bytes */10']);
    expect(((await beyond.json()) as Problem).errors?.[0]?.pointer).toBe('/headers/Range');
    const lost = await put('cond.txt', 'x', { 'if-match': '"x"' });
    expect([lost.status, ((await lost.json()) as Problem).errors?.[0]?.pointer]).toEqual([412, '/headers/If-Match']);
    expect((await put('cond.txt', 'x', { 'if-none-match': '*' })).status).toBe(412);
    const responses = await Promise.all([1, 2, 3, 4].map((i) => put('cond.txt', `${i}`, { 'if-match': etag })));
    expect(responses.map(({ status }) => status).sort()).toEqual([200, 412, 412, 412]);
    const gone = await gateway.call(at('cond.txt'), { method: 'DELETE', headers: { 'if-match': etag } });
    expect(gone.status).toBe(412);
  });

  testOnce('a tree can be listed recursively, in pages', async () => {
    await shell('mkdir -p tree/a/b; touch tree/1 tree/a/2 tree/a/b/3');
    const paths: string[] = [];
    for (let cursor: string | null = ''; cursor !== null; ) {
      const more: string = cursor && `&cursor=${cursor}`;
      const url = `${at('tree')}?recursive=true&limit=2${more}`;
      const page: { items: FileEntry[]; nextCursor: string | null } = (await gateway.get<typeof page>(url)).body;
      paths.push(...page.items.map(({ path }) => path));
      cursor = page.nextCursor;
    }
    expect(paths).toEqual(['tree/1', 'tree/a', 'tree/a/2', 'tree/a/b', 'tree/a/b/3']);
    const two = await gateway.get<{ items: FileEntry[] }>(`${at('tree')}?depth=2`);
    expect(two.body.items).toHaveLength(4);
    expect((await gateway.call(`${at('tree')}?depth=0`)).status).toBe(400);
  });
});
