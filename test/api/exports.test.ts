import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import { GetObjectCommand, ListObjectsV2Command, S3Client } from '@aws-sdk/client-s3';
import { BlobSASPermissions, ContainerClient } from '@azure/storage-blob';
import { Client as Database } from 'pg';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Box, CreateExport, Export, ExportSummary, Problem } from '#contract';
import { azureConnectionString, type StoreServer, startAzure, startS3 } from '../blobs/servers.ts';
import { anyDriver, databaseUrl, eventually, type GatewayProcess, startGatewayProcess } from './harness.ts';

describe.each(anyDriver)('exports of files on the %s driver', (driver) => {
  let gateway: GatewayProcess;
  let store: StoreServer;
  let azure: StoreServer;
  let bucket: S3Client;
  let database: Database;
  let box: Box;
  let base: string;
  const received: { path: string; method: string; headers: Record<string, unknown>; body: string }[] = [];
  /** What each path responds; by default 200 with an ETag. */
  const respond = new Map<string, (response: ServerResponse) => void>();
  const receiver = createServer(async (request, response) => {
    const path = request.url ?? '';
    const own = respond.get(path);
    if (own) own(response);
    const body = await text(request).catch(() => undefined);
    if (body === undefined) return;
    received.push({ path, method: request.method ?? '', headers: request.headers, body });
    if (!own) response.writeHead(200, { etag: '"e1"' }).end();
  });

  beforeAll(async () => {
    receiver.listen(0, '127.0.0.1');
    await once(receiver, 'listening');
    base = `http://127.0.0.1:${(receiver.address() as AddressInfo).port}`;
    [store, azure, gateway] = await Promise.all([
      startS3(),
      startAzure(),
      startGatewayProcess(driver, { CODEBOX_OUTBOUND_ALLOW: '127.0.0.1', CODEBOX_SWEEP_SECONDS: '0.3' }),
    ]);
    database = new Database({ connectionString: await databaseUrl(gateway.dataDir) });
    await database.connect();
    bucket = new S3Client({
      region: 'us-east-1',
      endpoint: `http://127.0.0.1:${store.port}`,
      forcePathStyle: true,
      credentials: { accessKeyId: 'S3RVER', secretAccessKey: 'S3RVER' },
    });
    box = await gateway.createBox();
    await gateway.run(
      box.id,
      `import os, random
os.makedirs("out/deep", exist_ok=True); os.makedirs(os.fsencode("out/n\\xef").decode("utf-8", "surrogateescape"), exist_ok=True)
open("out/a.csv", "w").write("x,y\\n1,2\\n"); open("out/deep/ä b+%2e.txt", "w").write("deep"); open("out/empty", "w")
open(b"out/raw-\\xff", "w").write("raw")
os.symlink("/etc/passwd", "out/passwd"); os.symlink("out/a.csv", "link.csv"); os.symlink("/etc", "etc")
random.seed(1); open("big.bin", "wb").write(random.randbytes(11 * 1024 * 1024 + 5))`,
    );
  });
  afterAll(async () => {
    receiver.closeAllConnections();
    receiver.close();
    await database?.end();
    await gateway?.dispose();
    await Promise.all([store?.[Symbol.asyncDispose](), azure?.[Symbol.asyncDispose]()]);
  });

  const s3 = (more: Record<string, unknown> = {}) => ({
    bucket: 'codebox',
    endpoint: `http://127.0.0.1:${store.port}`,
    accessKeyId: 'S3RVER',
    secretAccessKey: 'S3RVER',
    ...more,
  });
  const request = (ask: unknown, headers?: Record<string, string>, id = box.id) =>
    gateway.post<Export & Problem>(`/v1/boxes/${id}/exports`, ask, headers);
  const make = async (ask: CreateExport) => {
    const { status, body } = await request(ask);
    expect([status, body.failure ?? body.state]).toEqual([201, 'done']);
    return body;
  };
  const fail = async (ask: CreateExport) => {
    const { status, body } = await request(ask);
    expect([status, body.state]).toEqual([201, 'failed']);
    return body;
  };
  const read = async (id: string) => (await gateway.get<Export>(`/v1/boxes/${box.id}/exports/${id}`)).body;
  const ended = (id: string) =>
    eventually(async () => {
      const found = await read(id);
      return found.state !== 'running' && found;
    });
  /** An export that stays half done: its second file is never answered. */
  const halfDone = () => {
    respond.set('/hangs', () => {});
    const files = [
      { path: 'out/a.csv', url: `${base}/first` },
      { path: 'big.bin', url: `${base}/hangs` },
    ];
    return { files, detach: true };
  };
  const object = async (Key: string) => {
    const { Body, ContentType } = await bucket.send(new GetObjectCommand({ Bucket: 'codebox', Key }));
    return { type: ContentType, bytes: Buffer.from((await Body?.transformToByteArray()) ?? []) };
  };
  const keys = async (Prefix: string) =>
    ((await bucket.send(new ListObjectsV2Command({ Bucket: 'codebox', Prefix }))).Contents ?? []).map(({ Key }) => Key);

  test('files and folders become objects of a bucket, large ones in parts, and links in folders are not followed', async () => {
    const made = await make({ paths: ['out', 'big.bin', 'out/a.csv'], s3: s3({ prefix: 'runs/17' }) });
    const sha = (bytes: Buffer) => createHash('sha256').update(bytes).digest('hex');
    const { stdout } = await gateway.client.commands.run(box.id, { command: 'sha256sum big.bin' });
    expect(sha((await object('runs/17/big.bin')).bytes)).toBe(stdout.slice(0, 64));
    expect(await object('runs/17/out/a.csv')).toEqual({ type: 'text/csv', bytes: Buffer.from('x,y\n1,2\n') });
    expect((await object('runs/17/out/deep/ä b+%2e.txt')).bytes.toString()).toBe('deep');
    expect((await object('runs/17/out/empty')).bytes.length).toBe(0);
    expect((await object('runs/17/out/raw-%FF')).bytes.toString()).toBe('raw');
    expect((await keys('')).length).toBe(5);
    expect(made).toMatchObject({ to: `http://127.0.0.1:${store.port}/codebox/runs/17`, fileCount: 5, skipped: 1 });
    const names = made.files.map(({ key }) => key).sort();
    expect(names).toEqual((await keys('')).sort());
    expect(made.files.every(({ etag }) => /^"[0-9a-f-]+"$/.test(etag ?? ''))).toBe(true);
    expect(made.sizeBytes).toBe(made.files.reduce((sum, { sizeBytes }) => sum + sizeBytes, 0));
    expect(await read(made.id)).toEqual(made);
    const { files: _, ...summary } = made;
    const listed = (await gateway.get<{ items: ExportSummary[] }>(`/v1/boxes/${box.id}/exports`)).body.items;
    expect(listed.find(({ id }) => id === made.id)).toEqual(summary);
  });

  test('single files are sent to URLs, with the headers that were signed, and to Azure', async () => {
    const files = [
      { path: 'out/a.csv', url: `${base}/up?X-Amz-Signature=s3cret`, headers: { 'content-type': 'text/csv' } },
      { path: 'out/empty', url: `${base}/empty` },
      { path: 'link.csv', url: `${base}/link` },
    ];
    const made = await make({ files });
    expect(made.files.map(({ key, etag, sizeBytes }) => [key, etag, sizeBytes]).sort()).toEqual(
      [
        [null, '"e1"', 8],
        [null, '"e1"', 0],
        [null, '"e1"', 8],
      ].sort(),
    );
    const up = received.find(({ path }) => path.startsWith('/up'));
    expect(up).toMatchObject({ method: 'PUT', body: 'x,y\n1,2\n', path: '/up?X-Amz-Signature=s3cret' });
    expect(up?.headers).toMatchObject({ 'content-type': 'text/csv', 'content-length': '8' });
    const container = new ContainerClient(azureConnectionString(azure.port), 'kept');
    await container.create();
    const url = await container.getBlobClient('a.csv').generateSasUrl({
      permissions: BlobSASPermissions.parse('cw'),
      expiresOn: new Date(Date.now() + 600_000),
    });
    await make({ files: [{ path: 'out/a.csv', url, headers: { 'x-ms-blob-type': 'BlockBlob' } }] });
    expect((await container.getBlobClient('a.csv').downloadToBuffer()).toString()).toBe('x,y\n1,2\n');
    const wrong = await fail({ files: [{ path: 'out/a.csv', url }] });
    expect(wrong.failure).toMatchObject({ code: 'refused', path: 'out/a.csv', detail: expect.stringContaining('400') });
  });

  test('an export names why it failed, and neither keys nor URLs are stored, logged or returned', async () => {
    const missing = await fail({ paths: ['out/none'], s3: s3() });
    expect(missing.failure).toMatchObject({ code: 'not_found', path: 'out/none' });
    const foreign = await fail({ paths: ['out/a.csv'], s3: s3({ bucket: 'other' }) });
    expect(foreign.failure).toMatchObject({ code: 'refused', detail: expect.stringContaining('NoSuchBucket') });
    const secret = {
      accessKeyId: 'wrong-access-key',
      secretAccessKey: 'wrong-secret-key',
      sessionToken: 'session-token-text',
    };
    const denied = await fail({ paths: ['out/a.csv'], s3: s3(secret) });
    expect(denied.failure).toMatchObject({ code: 'refused', detail: expect.stringContaining('InvalidAccessKeyId') });
    respond.set('/moved?sig=hidden-signature', (response) =>
      response.writeHead(307, { location: `${base}/elsewhere` }).end(),
    );
    const moved = await fail({ files: [{ path: 'out/a.csv', url: `${base}/moved?sig=hidden-signature` }] });
    expect(moved.failure).toMatchObject({ code: 'refused', detail: expect.stringContaining('307') });
    expect(received.some(({ path }) => path === '/elsewhere')).toBe(false);
    // The receiver is no store with the API of S3.
    const odd = await fail({ paths: ['big.bin'], s3: s3({ endpoint: base }) });
    expect(odd.failure).toMatchObject({ code: 'refused', detail: expect.stringContaining('invalid response') });
    respond.set('/breaks', (response) =>
      response.writeHead(200, { 'content-length': 9 }).write('x', () => response.destroy()),
    );
    const broken = await fail({ files: [{ path: 'out/a.csv', url: `${base}/breaks` }] });
    expect(broken.failure).toMatchObject({ code: 'unreachable', path: 'out/a.csv' });
    const folder = await fail({ files: [{ path: 'out', url: `${base}/folder` }] });
    expect(folder.failure).toMatchObject({ code: 'not_found', path: 'out' });
    const { rows } = await database.query('select * from file_exports');
    const seen = JSON.stringify([rows, missing, foreign, denied, moved]) + gateway.output();
    for (const text of [
      'wrong-access-key',
      'wrong-secret-key',
      'session-token-text',
      'hidden-signature',
      'S3RVER',
      's3cret',
    ])
      expect(seen).not.toContain(text);
  });

  test('an export cannot reach the network of the operator, nor be told to', async () => {
    const fault = async (ask: unknown) => {
      const { status, body } = await request(ask);
      return [status, body.errors?.[0]?.pointer];
    };
    for (const host of ['127.0.0.2', '169.254.169.254', '[::1]', '0x7f000002']) {
      expect(await fault({ paths: ['out'], s3: s3({ endpoint: `https://${host}` }) })).toEqual([400, '/s3/endpoint']);
      expect(await fault({ files: [{ path: 'out/a.csv', url: `http://${host}/x` }] })).toEqual([400, '/files/0/url']);
    }
    // A name that resolves to such an address is found out when it is connected to.
    const endpoint = `https://localhost:${store.port}`;
    for (const ask of [
      { files: [{ path: 'out/a.csv', url: `${endpoint}/x` }] },
      { paths: ['out'], s3: s3({ endpoint }) },
    ])
      expect((await fail(ask)).failure?.code).toBe('unreachable');
    for (const name of ['a/b', '../x', 'a..b', '', 'arn:aws:s3:::x', 'x?y'])
      expect(await fault({ paths: ['out'], s3: s3({ bucket: name }) })).toEqual([400, '/s3/bucket']);
    for (const prefix of ['../x', 'a//b', '/a', 'a/./b', 'a\0'])
      expect(await fault({ paths: ['out'], s3: s3({ prefix }) })).toEqual([400, '/s3/prefix']);
    for (const path of ['../x', '/etc/passwd', 'a/../b'])
      expect(await fault({ paths: [path], s3: s3() })).toEqual([400, '/paths/0']);
    expect(await fault({ paths: ['out'], s3: s3({ endpoint: `${base}/path` }) })).toEqual([400, '/s3/endpoint']);
    for (const region of ['x.evil.example/', '-', 'us-', ''])
      expect(await fault({ paths: ['out'], s3: s3({ region }) })).toEqual([400, '/s3/region']);
    expect(await fault({ paths: ['out'] })).toEqual([400, '/s3']);
    expect(await fault({ files: [{ path: 'x', url: base }], s3: s3() })).toEqual([400, '/s3']);
    expect(await fault({ files: [{ path: 'x', url: base, headers: { host: 'evil' } }] })).toEqual([
      400,
      '/files/0/headers/host',
    ]);
  });

  test('only the tenant of a box makes, lists, reads and cancels its exports, four at once', async () => {
    const made = await make({ paths: ['out/a.csv'], s3: s3() });
    const authorization = `Bearer ${await gateway.addTenant()}`;
    expect((await request({ paths: ['out'], s3: s3() }, { authorization })).status).toBe(404);
    for (const [method, path] of [
      ['GET', ''],
      ['GET', `/${made.id}`],
      ['DELETE', `/${made.id}`],
    ])
      expect(
        (await gateway.call(`/v1/boxes/${box.id}/exports${path}`, { method: method ?? '', headers: { authorization } }))
          .status,
      ).toBe(404);
    respond.set('/stalls', () => {});
    const stalled = { files: [{ path: 'out/a.csv', url: `${base}/stalls` }], detach: true };
    const all = await Promise.all(Array.from({ length: 6 }, () => request(stalled)));
    expect(all.map(({ status }) => status).sort()).toEqual([202, 202, 202, 202, 429, 429]);
    const running = all.flatMap(({ status, body }) => (status === 202 ? [body.id] : []));
    for (const id of running) {
      expect((await gateway.call(`/v1/boxes/${box.id}/exports/${id}`, { method: 'DELETE' })).status).toBe(204);
      expect((await ended(id)).failure?.code).toBe('canceled');
    }
    await eventually(
      async () => (await request({ ...stalled, files: [{ path: 'out/a.csv', url: base }] })).status === 202,
    );
    expect((await gateway.call(`/v1/boxes/${box.id}/exports/${made.id}`, { method: 'DELETE' })).status).toBe(204);
    expect((await read(made.id)).state).toBe('done');
  });

  test('slow stores of four tenants leave places to the exports of a fifth', async () => {
    let stalled = 0;
    respond.set('/slow', () => {
      stalled += 1;
    });
    const files = Array.from({ length: 4 }, () => ({ path: 'a.csv', url: `${base}/slow` }));
    const begun: [string, Record<string, string>][] = [];
    for (let tenant = 0; tenant < 4; tenant++) {
      const headers = { authorization: `Bearer ${await gateway.addTenant()}` };
      const { id } = (await gateway.post<Box>('/v1/boxes', { files: [{ path: 'a.csv', text: 'x' }] }, headers)).body;
      const { status, body } = await request({ files, detach: true }, headers, id);
      expect(status).toBe(202);
      begun.push([`/v1/boxes/${id}/exports/${body.id}`, headers]);
    }
    await eventually(async () => stalled >= 13);
    await make({ files: [{ path: 'out/a.csv', url: `${base}/fifth` }], timeoutSeconds: 5 });
    for (const [path, headers] of begun)
      expect((await gateway.call(path, { method: 'DELETE', headers })).status).toBe(204);
  });

  /** A store that passes requests on to the bucket and notes them. The second part of an upload is never answered. */
  const startProxy = async () => {
    const proxied: string[] = [];
    const proxy = createServer(async (incoming, response) => {
      const { method = '', url = '', headers } = incoming;
      proxied.push(`${method} ${url}`);
      if (url.includes('partNumber=2')) return void incoming.resume();
      const body = Buffer.concat(await Array.fromAsync(incoming));
      const passed = await fetch(`http://127.0.0.1:${store.port}${url}`, {
        method,
        headers: headers as Record<string, string>,
        ...(body.length > 0 && { body }),
      });
      response.writeHead(passed.status, { etag: passed.headers.get('etag') ?? '' }).end(await passed.text());
    }).listen(0, '127.0.0.1');
    await once(proxy, 'listening');
    const close = async () => {
      proxy.closeAllConnections();
      proxy.close();
    };
    const endpoint = `http://127.0.0.1:${(proxy.address() as AddressInfo).port}`;
    return { endpoint, proxied, [Symbol.asyncDispose]: close };
  };

  test('an export that ends early leaves no object and no parts', async () => {
    await using proxy = await startProxy();
    const target = s3({ endpoint: proxy.endpoint, prefix: 'late' });
    const late = await fail({ paths: ['big.bin'], s3: target, timeoutSeconds: 2 });
    expect(late.failure).toMatchObject({ code: 'timeout' });
    // The emulator lists no uploads: what counts is that this one is named.
    const part = proxy.proxied.find((line) => line.includes('partNumber=1'));
    const upload = /uploadId=(\w+)/.exec(part ?? '')?.[1];
    expect(upload).toMatch(/^\w{32}$/);
    expect(proxy.proxied.at(-1)).toMatch(new RegExp(`^DELETE /codebox/late/big.bin\\?.*uploadId=${upload}`));
    expect(await keys('late')).toEqual([]);
  });

  test('a canceled export and its event name what has arrived', async () => {
    const types = ['export.ended'];
    const hook = await gateway.post<{ id: string }>('/v1/webhooks', { url: `${base}/told`, types });
    const { body } = await request(halfDone());
    await eventually(async () => (await read(body.id)).fileCount === 1);
    await gateway.call(`/v1/boxes/${box.id}/exports/${body.id}`, { method: 'DELETE' });
    const { state, failure, files, fileCount, sizeBytes } = await ended(body.id);
    expect([state, failure?.code, files.map(({ path }) => path)]).toEqual(['failed', 'canceled', ['out/a.csv']]);
    const told = await eventually(async () =>
      received
        .filter(({ path }) => path === '/told')
        .map((event) => JSON.parse(event.body).data)
        .find((data) => data.export === body.id),
    );
    const canceled = { code: 'canceled', detail: failure?.detail };
    expect(told).toMatchObject({ export: body.id, state: 'failed', fileCount: 1, sizeBytes: 8, failure: canceled });
    expect([fileCount, sizeBytes]).toEqual([1, 8]);
    await gateway.call(`/v1/webhooks/${hook.body.id}`, { method: 'DELETE' });
  });

  test('a repeated request with its key reads the export that the first one began', async () => {
    respond.set('/keyed', () => {});
    const ask = { files: [{ path: 'out/a.csv', url: `${base}/keyed` }], detach: true };
    const key = { 'Idempotency-Key': 'export-once' };
    const [first, second] = [await request(ask, key), await request(ask, key)];
    expect([first.status, second.status, second.body.id]).toEqual([202, 202, first.body.id]);
    await eventually(async () => received.some(({ path }) => path === '/keyed'));
    await gateway.call(`/v1/boxes/${box.id}/exports/${first.body.id}`, { method: 'DELETE' });
    const after = await ended(first.body.id);
    expect(await request(ask, key)).toMatchObject({ status: 201, body: after });
    expect(received.filter(({ path }) => path === '/keyed').length).toBe(1);
  });

  test('an export whose gateway is killed is named interrupted, and its parts stay invisible', async () => {
    await using proxy = await startProxy();
    const { body: toUrls } = await request(halfDone());
    const target = s3({ endpoint: proxy.endpoint, prefix: 'killed' });
    const { body: toBucket } = await request({ paths: ['big.bin'], s3: target, detach: true });
    await eventually(async () => (await read(toUrls.id)).fileCount === 1);
    await eventually(async () => proxy.proxied.some((line) => line.includes('partNumber=2')));
    await gateway.kill('SIGKILL');
    // As when its lease has ended.
    await database.query('delete from gateways');
    await gateway.restart();
    for (const [id, count] of [
      [toUrls.id, 1],
      [toBucket.id, 0],
    ] as const) {
      const { state, failure, fileCount, files } = await ended(id);
      expect([state, failure?.code, fileCount, files]).toEqual(['failed', 'interrupted', count, []]);
    }
    expect(await keys('killed')).toEqual([]);
    expect(proxy.proxied.filter((line) => line.startsWith('DELETE'))).toEqual([]);
  });
});
