import { createHash, randomBytes } from 'node:crypto';
import { once } from 'node:events';
import fs from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { createServer, type RequestListener, request } from 'node:http';
import { syncBuiltinESMExports } from 'node:module';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join, relative } from 'node:path';
import { Readable } from 'node:stream';
import { ContainerClient } from '@azure/storage-blob';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { CodeBoxError } from '#contract';
import type { BlobEntry, BlobStore } from '../../services/blobs/blob-store.ts';
import { openBlobs } from '../../services/blobs/open-blobs.ts';
import { createBlobProbe } from '../../services/blobs/probe.ts';
import type { BlobsConfig } from '../../services/blobs/settings.ts';
import { eventually, refusal } from '../api/harness.ts';
import { azureConnectionString, type StoreServer, startAzure, startS3 } from './servers.ts';

interface Opened {
  config: BlobsConfig;
  stop: () => PromiseLike<void>;
}

const noCloud = {
  s3: { credentials: undefined, region: 'us-east-1' },
  azureConnectionString: undefined,
};
const s3Keys = { accessKeyId: 'S3RVER', secretAccessKey: 'S3RVER' };
const withKeys = { credentials: s3Keys, region: 'us-east-1' };

const places: Record<BlobStore['kind'], () => Promise<Opened>> = {
  async folder() {
    const place = await mkdtemp(join(tmpdir(), 'codebox-blobs-'));
    return { config: { ...noCloud, place }, stop: () => rm(place, { recursive: true, force: true }) };
  },
  async s3() {
    const server = await startS3();
    const place = `s3+http://127.0.0.1:${server.port}/codebox/some/prefix`;
    return { config: { ...noCloud, place, s3: withKeys }, stop: () => server[Symbol.asyncDispose]() };
  },
  async azure() {
    const server = await startAzure();
    const connection = azureConnectionString(server.port);
    await new ContainerClient(connection, 'codebox').create();
    return {
      config: { ...noCloud, place: 'azure:codebox/prefix', azureConnectionString: connection },
      stop: () => server[Symbol.asyncDispose](),
    };
  },
};

describe.each(Object.keys(places) as BlobStore['kind'][])('blobs in a store of kind %s', (kind) => {
  let opened: Opened;
  let blobs: BlobStore;
  beforeAll(async () => {
    opened = await places[kind]();
    blobs = await openBlobs(opened.config, 'dep-1');
  });
  afterAll(() => opened?.stop());

  const signal = () => AbortSignal.timeout(50_000);
  const put = (name: string, ...chunks: Buffer[]) => blobs.put(name, Readable.from(chunks), signal());
  const digest = async (name: string) => {
    const hash = createHash('sha256');
    for await (const chunk of await blobs.get(name, signal())) hash.update(chunk as Buffer);
    return hash.digest('hex');
  };
  const all = async (store: BlobStore) => {
    const found: BlobEntry[] = [];
    for (let cursor: string | undefined; ; ) {
      const { items, next } = await store.list(cursor, signal());
      found.push(...items);
      if (next === undefined) return found.map(({ name }) => name).sort();
      cursor = next;
    }
  };

  test.each([0, 1, 16 * 1024 * 1024, 37 * 1024 * 1024 + 5])('%d bytes are read back unchanged', async (size) => {
    const bytes = randomBytes(size);
    const chunks = Array.from({ length: Math.ceil(size / 700_001) }, (_, n) =>
      bytes.subarray(n * 700_001, (n + 1) * 700_001),
    );
    await put('box-1/blob', ...chunks);
    expect(await blobs.has('box-1/blob', signal())).toBe(true);
    expect(await digest('box-1/blob')).toBe(createHash('sha256').update(bytes).digest('hex'));
    await blobs.delete('box-1/blob', signal());
    expect(await all(blobs)).toEqual([]);
  });

  test('a missing blob is reported as not found, and deleting it succeeds', async () => {
    expect(await blobs.has('box-1/none', signal())).toBe(false);
    expect((await refusal(blobs.get('box-1/none', signal()))).code).toBe('not_found');
    await blobs.delete('box-1/none', signal());
  });

  test('each deployment lists only its own blobs, in pages', async () => {
    const other = await openBlobs(opened.config, 'dep-2');
    const names = Array.from({ length: 12 }, (_, n) => `box-${n}/blob-${n % 3}`).sort();
    for (const name of names) await put(name, Buffer.from(name));
    await other.put('box-1/blob-1', Readable.from([Buffer.from('x')]), signal());
    expect(await all(blobs)).toEqual(names);
    expect(await all(other)).toEqual(['box-1/blob-1']);
    const [first] = (await blobs.list(undefined, signal())).items;
    expect(Math.abs(Date.now() - (first?.changedAt.getTime() ?? 0))).toBeLessThan(120_000);
    for (const name of names) await blobs.delete(name, signal());
    await other.delete('box-1/blob-1', signal());
  });

  test('content that fails leaves no blob, and its error is reported', async () => {
    const broken = async function* () {
      for (let n = 0; n < 20; n++) yield randomBytes(1024 * 1024);
      throw new CodeBoxError('too_large', 'too much');
    };
    const refused = await refusal(blobs.put('box-1/broken', Readable.from(broken()), signal()));
    expect(refused.code).toBe('too_large');
    expect(await all(blobs)).toEqual([]);
  });

  test('an aborted write leaves no blob', async () => {
    const off = new AbortController();
    const endless = async function* () {
      for (let n = 0; ; n++) {
        if (n === 5) off.abort();
        yield randomBytes(1024 * 1024);
      }
    };
    await expect(blobs.put('box-1/endless', Readable.from(endless()), off.signal)).rejects.toThrow();
    expect(await all(blobs)).toEqual([]);
  });

  test('a store that cannot be reached is unavailable', async () => {
    const places = { folder: '/dev/null/none', s3: 's3+http://127.0.0.1:1/codebox', azure: 'azure:none' };
    const other = await openBlobs({ ...opened.config, place: places[kind] }, 'dep-1');
    const content = Readable.from([Buffer.from('x')]);
    expect((await refusal(other.has('box-1/late', signal()))).code).toBe('unavailable');
    expect((await refusal(other.put('box-1/late', content, signal()))).code).toBe('unavailable');
    expect(content.destroyed).toBe(true);
  });
});

describe('an S3 bucket', () => {
  let bucket: StoreServer;
  beforeAll(async () => {
    bucket = await startS3();
  });
  afterAll(() => bucket?.[Symbol.asyncDispose]());

  const openBucket = (port: number, accessKeyId = s3Keys.accessKeyId) =>
    openBlobs(
      {
        ...noCloud,
        place: `s3+http://127.0.0.1:${port}/codebox`,
        s3: { ...withKeys, credentials: { ...s3Keys, accessKeyId } },
      },
      'dep-1',
    );

  test('that does not accept the key is unavailable', async () => {
    await eventually(createBlobProbe(await openBucket(bucket.port)));
    const blobs = await openBucket(bucket.port, 'someone');
    expect(await createBlobProbe(blobs)()).toBe(false);
    expect((await refusal(blobs.has('box-1/blob', AbortSignal.timeout(50_000)))).code).toBe('unavailable');
  });

  test.each([
    ['AccessDenied', 'missing, as S3 does not reveal what exists'],
    ['SignatureDoesNotMatch', 'unavailable'],
  ])('that returns %s: the requested blob is %s', async (code, is) => {
    await using server = await serve((_, response) => {
      response.writeHead(403, { 'content-type': 'application/xml' }).end(`<Error><Code>${code}</Code></Error>`);
    });
    const result = (await openBucket(server.port)).has('box-1/none', AbortSignal.timeout(50_000));
    if (is === 'unavailable') expect((await refusal(result)).code).toBe(is);
    else expect(await result).toBe(false);
  });

  test.each(['its content fails', 'it is aborted'])('keeps no parts of a large blob if %s', async (reason) => {
    const requests: string[] = [];
    await using server = await serve((incoming, response) => {
      const { method, url, headers } = incoming;
      requests.push(`${method} ${url}`);
      const passed = request({ host: '127.0.0.1', port: bucket.port, method, path: url, headers }, (reply) => {
        response.writeHead(reply.statusCode ?? 0, reply.headers);
        reply.pipe(response);
      });
      passed.on('error', () => response.destroy());
      incoming.on('error', () => passed.destroy());
      incoming.pipe(passed);
    });
    const blobs = await openBucket(server.port);
    const off = new AbortController();
    const content = async function* () {
      for (let n = 0; n < 20; n++) yield randomBytes(1024 * 1024);
      await eventually(async () => requests.some((line) => line.includes('partNumber=1')));
      if (reason === 'its content fails') throw new Error('broken');
      off.abort();
    };
    await refusal(blobs.put('box-1/large', Readable.from(content()), off.signal));
    const upload = requests.flatMap((line) => /partNumber=1&.*uploadId=(\w+)/.exec(line)?.[1] ?? [])[0];
    expect(upload).toMatch(/^\w{32}$/);
    expect(requests.at(-1)).toMatch(new RegExp(`^DELETE /codebox/dep-1/box-1/large\\?.*uploadId=${upload}`));
  });
});

/** Starts an HTTP server on a free port. */
const serve = async (listener: RequestListener) => {
  const server = createServer(listener).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  const stop = async () => {
    server.closeAllConnections();
    server.close();
    await once(server, 'close');
  };
  return { port, [Symbol.asyncDispose]: stop };
};

test('a blob in a folder, its name and its folders are synced to disk before the write is confirmed', async () => {
  const { config, stop } = await places.folder();
  const seen: string[] = [];
  const note = (what: string, path: string) => seen.push(`${what} ${relative(config.place, path)}`);
  const { open, rename } = fs.promises;
  const { fsync } = fs;
  fs.promises.open = async (path, ...rest) => {
    const handle = await open(path, ...rest);
    const { sync } = handle;
    handle.sync = async () => {
      await sync.call(handle);
      note('sync', String(path));
    };
    return handle;
  };
  fs.promises.rename = async (from, to) => {
    await rename(from, to);
    note('rename', String(to));
  };
  const onSync = Object.assign(
    (fd: number, done: fs.NoParamCallback) => {
      note('sync', fs.readlinkSync(`/proc/self/fd/${fd}`));
      fsync(fd, done);
    },
    { __promisify__: fsync.__promisify__ },
  );
  fs.fsync = onSync;
  syncBuiltinESMExports();
  try {
    const blobs = await openBlobs(config, 'dep-1');
    await blobs.put('box-1/blob', Readable.from([Buffer.from('x')]), AbortSignal.timeout(50_000));
  } finally {
    Object.assign(fs.promises, { open, rename });
    fs.fsync = fsync;
    syncBuiltinESMExports();
    await stop();
  }
  expect(seen).toEqual([
    'sync dep-1/box-1/blob.part',
    'rename dep-1/box-1/blob',
    'sync dep-1/box-1',
    'sync dep-1',
    'sync ',
  ]);
});

test('a stalled folder gets one request however many callers wait, and is used again once it responds', async () => {
  const { config, stop } = await places.folder();
  const { stat } = fs.promises;
  const silence = Promise.withResolvers<void>();
  let calls = 0;
  fs.promises.stat = (async (path: string) => {
    calls += 1;
    await silence.promise;
    return await stat(path);
  }) as typeof stat;
  syncBuiltinESMExports();
  try {
    const blobs = await openBlobs(config, 'dep-1');
    const probe = createBlobProbe(blobs);
    expect(await Promise.all([probe(), probe()])).toEqual([false, false]);
    expect(await probe()).toBe(false);
    const uses = ['box-1/a', 'box-2/b', 'box-3/c'].map((name) => refusal(blobs.has(name, AbortSignal.timeout(100))));
    const late = () => AbortSignal.timeout(100);
    const others = [blobs.get('box-1/a', late()), blobs.delete('box-1/a', late()), blobs.list(undefined, late())];
    const codes = (await Promise.all([...uses, ...others.map(refusal)])).map(({ code }) => code);
    expect(codes).toEqual(codes.map(() => 'unavailable'));
    expect(calls).toBe(1);
    silence.resolve();
    expect(await blobs.has('box-1/a', AbortSignal.timeout(50_000))).toBe(false);
    expect(await eventually(probe)).toBe(true);
  } finally {
    fs.promises.stat = stat;
    syncBuiltinESMExports();
    await stop();
  }
});

test('once a probe of a stalled store has timed out, later probes return false at once', async () => {
  const open: (() => void)[] = [];
  const has = () => new Promise<boolean>((resolve) => open.push(() => resolve(false)));
  const probe = createBlobProbe({ has });
  expect(await probe()).toBe(false);
  const next = new Promise((done) => setImmediate(() => setImmediate(done, 'late')));
  expect(await Promise.race([probe(), next])).toBe(false);
  expect(open).toHaveLength(1);
  open[0]?.();
  await new Promise(setImmediate);
  const again = probe();
  expect(open).toHaveLength(2);
  open[1]?.();
  expect(await again).toBe(true);
});

test.each(['s3+https://host', 'azure:container', 'azure:', 'azure+https://host', 'azure+http://host/container'])(
  'the incomplete place %s is refused by the name of its variable',
  async (place) => {
    await expect(openBlobs({ ...noCloud, place }, 'dep-1')).rejects.toThrow('CODEBOX_BLOBS');
  },
);
