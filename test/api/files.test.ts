import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { Agent, request } from 'node:http';
import { connect, type Socket } from 'node:net';
import { Readable } from 'node:stream';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type Box, decodePath, encodePath, type FileEntry } from '#contract';
import { anyDriver, drivers, type GatewayProcess, mainDriver, memoryOf, startGatewayProcess } from './harness.ts';
import { rawRequest } from './servers.ts';

const megabyte = 1024 * 1024;
/** Far more than a gateway may grow by. */
const largeMb = 1000;

describe.each(drivers)('files on the %s driver', (driver) => {
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

  const at = (path: string) => `/v1/boxes/${box.id}/files/${path}`;
  const put = (path: string, body: string | Uint8Array<ArrayBuffer>, headers = {}) =>
    gateway.call(at(path), { method: 'PUT', body, headers });

  test('code can plot an uploaded CSV and save the figure, which is downloaded byte for byte', async () => {
    const rows = Array.from({ length: 10_000 }, (_, i) => `${i},${Math.sin(i / 500)}`);
    expect((await put('table.csv', `x,y\n${rows.join('\n')}\n`)).status).toBe(201);
    const code = [
      'import pandas as pd, matplotlib.pyplot as plt, hashlib',
      'table = pd.read_csv("table.csv")',
      '_ = table.plot(x="x", y="y")',
      'plt.savefig("plot.png")',
      '(len(table), hashlib.sha256(open("plot.png", "rb").read()).hexdigest())',
    ].join('\n');
    const run = await gateway.run(box.id, code, { timeoutSeconds: 120 });
    const figure = run.outputs?.find((event) => event.type === 'display');
    expect(Buffer.from(String(figure?.mime['image/png']), 'base64').subarray(1, 4).toString()).toBe('PNG');
    expect(run.files?.created).toEqual(['plot.png']);
    const saved = Buffer.from(await (await gateway.call(at('plot.png'))).arrayBuffer());
    expect(saved.subarray(1, 4).toString()).toBe('PNG');
    expect(run.text).toBe(`(10000, '${createHash('sha256').update(saved).digest('hex')}')`);
  });

  testOnMain(`${largeMb} MB go up and come down unchanged while the gateway grows by less than 64 MB`, async () => {
    const block = Buffer.alloc(megabyte, 'codebox ');
    const total = largeMb * megabyte;
    const blocks = function* () {
      for (let sent = 0; sent < total; sent += megabyte) yield block;
    };
    await gateway.run(box.id, '1');
    const before = await memoryOf(gateway.pid());
    const body = Readable.toWeb(Readable.from(blocks())) as ReadableStream;
    const up = await gateway.call(at('big.bin'), { method: 'PUT', body, duplex: 'half' } as RequestInit);
    expect(((await up.json()) as FileEntry).sizeBytes).toBe(total);
    const down = await gateway.call(at('big.bin'));
    expect(down.headers.get('content-length')).toBe(String(total));
    const hash = createHash('sha256');
    for await (const chunk of down.body ?? []) hash.update(chunk as Uint8Array);
    const expected = createHash('sha256');
    for (const piece of blocks()) expected.update(piece);
    expect(hash.digest('hex')).toBe(expected.digest('hex'));
    const after = await memoryOf(gateway.pid());
    expect((after.peak - before.now) / megabyte).toBeLessThan(64);
    expect((await gateway.call(at('big.bin'), { method: 'DELETE' })).status).toBe(204);
  });

  testOnce('files with any characters in their names can be uploaded and downloaded', async () => {
    const name = 'über "quoted" 100% #1?&=+ 文件.txt';
    expect((await put(`deep/er/${encodeURIComponent(name)}`, 'hello')).status).toBe(201);
    const listed = (await gateway.get<{ items: FileEntry[] }>(at('deep/er'))).body.items;
    expect(listed.map((entry) => entry.path)).toEqual([`deep/er/${name}`]);
    const down = await gateway.call(at(`deep/er/${encodeURIComponent(name)}`));
    expect(await down.text()).toBe('hello');
    expect(down.headers.get('content-disposition')).toContain(`filename*=UTF-8''`);
    expect(down.headers.get('x-content-type-options')).toBe('nosniff');
  });

  testOnce(
    'files of any name can be listed, read and deleted by their paths, and folders of any depth deleted',
    async () => {
      const code = [
        'import os',
        'os.mkdir(b"odd")',
        'names = [b"a\\nb", b"\\r", "\\u2028".encode(), b"\\xff\\xfe", b"100%"]',
        'for name in names: open(b"odd/" + name, "wb").write(name)',
        'os.mkdir("depths"); os.chdir("depths")',
        'for level in range(3000): os.mkdir("folder"); os.chdir("folder")',
        'os.chdir("/mnt/data")',
      ].join('\n');
      expect((await gateway.run(box.id, code)).status).toBe('ok');
      const { items } = (await gateway.get<{ items: FileEntry[] }>(at('odd'))).body;
      const paths = items.map(({ path, encodedPath }) => encodedPath ?? encodePath(path));
      expect(paths.toSorted()).toEqual(['odd/%0D', 'odd/%E2%80%A8', 'odd/%FF%FE', 'odd/100%25', 'odd/a%0Ab']);
      for (const path of paths) {
        const down = await gateway.call(at(path));
        const content = [...new Uint8Array(await down.arrayBuffer())]
          .map((byte) => `%${byte.toString(16).padStart(2, '0')}`)
          .join('');
        expect([down.status, `odd/${decodePath(content)}`]).toEqual([200, decodePath(path)]);
        expect((await gateway.call(at(path), { method: 'DELETE' })).status).toBe(204);
        expect((await gateway.call(at(path), { method: 'HEAD' })).status).toBe(404);
      }
      expect((await gateway.get<{ items: FileEntry[] }>(at('odd'))).body.items).toEqual([]);
      expect((await gateway.call(at('depths'), { method: 'DELETE' })).status).toBe(204);
      expect((await gateway.call(at('depths'))).status).toBe(404);
      expect((await gateway.call(at('%zz'))).status).toBe(400);
    },
  );

  testOnce('range requests, ETags and conditions work', async () => {
    const made = (await (await put('range.txt', '0123456789')).json()) as FileEntry;
    const part = await gateway.call(at('range.txt'), { headers: { range: 'bytes=2-4' } });
    expect([part.status, part.headers.get('content-range'), await part.text()]).toEqual([206, 'bytes 2-4/10', '234']);
    const beyond = await gateway.call(at('range.txt'), { headers: { range: 'bytes=50-' } });
    expect(beyond.status).toBe(416);
    const etag = made.etag ?? '';
    expect((await gateway.call(at('range.txt'), { headers: { 'if-none-match': etag } })).status).toBe(304);
    expect((await put('range.txt', 'new', { 'if-match': '"other"' })).status).toBe(412);
    expect((await put('range.txt', 'new', { 'if-match': etag })).status).toBe(200);
    const head = await gateway.call(at('range.txt'), { method: 'HEAD' });
    expect([head.status, head.headers.get('content-length'), await head.text()]).toEqual([200, '3', '']);
  });

  testOnce(
    'files, ranges, folders and archives have the headers that clients and caches need, and no others',
    async () => {
      const { etag = '' } = (await (await put('sent/a.txt', '0123456789')).json()) as FileEntry;
      const headersOf = async (path: string, init: RequestInit = {}) => {
        const response = await gateway.call(at(path), init);
        await response.arrayBuffer();
        const names = ['connection', 'date', 'keep-alive', 'transfer-encoding', 'x-request-id', 'last-modified'];
        const headers = Object.fromEntries([...response.headers].filter(([name]) => !names.includes(name)));
        expect(response.headers.get('last-modified') === null).toBe(headers.etag === undefined);
        return [response.status, headers];
      };
      const named = (name: string, type: string) => ({
        'content-disposition': `attachment; filename="${name}"; filename*=UTF-8''${name}`,
        'content-security-policy': 'sandbox',
        'content-type': type,
        'x-content-type-options': 'nosniff',
      });
      const file = { ...named('a.txt', 'application/octet-stream'), 'accept-ranges': 'bytes', etag };
      expect(await headersOf('sent/a.txt')).toEqual([200, { ...file, 'content-length': '10' }]);
      expect(await headersOf('sent/a.txt', { method: 'HEAD' })).toEqual([200, { ...file, 'content-length': '10' }]);
      const part = { ...file, 'content-length': '3', 'content-range': 'bytes 7-9/10' };
      expect(await headersOf('sent/a.txt', { headers: { range: 'bytes=-3', 'if-range': etag } })).toEqual([206, part]);
      const known = { 'if-none-match': etag };
      expect(await headersOf('sent/a.txt', { headers: known })).toEqual([304, file]);
      expect(await headersOf('sent/a.txt', { method: 'HEAD', headers: known })).toEqual([304, file]);
      const beyond = await gateway.call(at('sent/a.txt'), { headers: { range: 'bytes=10-' } });
      expect([beyond.status, beyond.headers.get('content-range')]).toEqual([416, 'bytes */10']);
      const tar = { ...named('sent.tar', 'application/x-tar'), 'content-length': '10240' };
      expect(await headersOf('sent?as=tar')).toEqual([200, tar]);
      expect(await headersOf('sent?as=zip&download=x.zip', { method: 'HEAD' })).toEqual([
        200,
        { ...named('x.zip', 'application/zip'), 'content-length': '0' },
      ]);
      const [status, listing] = await headersOf('sent', { method: 'HEAD' });
      expect([status, listing]).toEqual([
        200,
        { ...named('sent', 'application/json'), 'content-length': expect.stringMatching(/^\d+$/) },
      ]);
      expect(await headersOf('sent')).toEqual([
        200,
        { 'content-type': 'application/json', 'content-length': expect.anything() },
      ]);
    },
  );

  test('an upload that is cut off leaves the previous file unchanged', async () => {
    await put('whole.txt', 'the old text');
    const cut = new AbortController();
    const body = new ReadableStream({
      async pull(controller) {
        controller.enqueue(new Uint8Array(64 * 1024));
        await new Promise((next) => setTimeout(next, 20));
      },
    });
    setTimeout(() => cut.abort(), 300);
    await expect(
      gateway.call(at('whole.txt'), { method: 'PUT', body, duplex: 'half', signal: cut.signal } as RequestInit),
    ).rejects.toThrow();
    expect(await (await gateway.call(at('whole.txt'))).text()).toBe('the old text');
  });

  test('an upload to a full disk is a 507 that leaves no file, and the box still works', async () => {
    const small = await gateway.createBox({ limits: { diskMb: 32 } });
    const path = `/v1/boxes/${small.id}/files/huge.bin`;
    const full = await gateway.call(path, { method: 'PUT', body: new Uint8Array(64 * megabyte) });
    expect([full.status, ((await full.json()) as { code: string }).code]).toEqual([507, 'disk_full']);
    expect((await gateway.call(path)).status).toBe(404);
    const wrote = await gateway.run(small.id, 'open("x","wb").write(b"0" * (64 << 20))');
    expect(wrote.error).toMatchObject({ name: 'OSError' });
    expect(wrote.error?.value).toContain('No space left');
    expect((await gateway.run(small.id, '1+1')).text).toBe('2');
  });

  testOnce('many files can be uploaded in one multipart request', async () => {
    const form = new FormData();
    form.append('a', new Blob(['one']), 'multi/one.txt');
    form.append('b', new Blob(['two']), 'multi/zwö 2.txt');
    const uploaded = await gateway.call(`/v1/boxes/${box.id}/files`, { method: 'POST', body: form });
    expect(uploaded.status).toBe(201);
    expect(((await uploaded.json()) as { items: FileEntry[] }).items.map((entry) => entry.path)).toEqual([
      'multi/one.txt',
      'multi/zwö 2.txt',
    ]);
    expect((await gateway.run(box.id, 'open("multi/zwö 2.txt").read()')).text).toBe("'two'");
    // The target of a request may be an absolute URL.
    expect((await rawRequest(gateway, `${gateway.url}${at('multi/one.txt')}`)).text).toBe('one');
    const bad = new FormData();
    bad.append('a', new Blob(['x']), '../escape.txt');
    const refused = await gateway.call(`/v1/boxes/${box.id}/files`, { method: 'POST', body: bad });
    expect([refused.status, ((await refused.json()) as { errors: { pointer: string }[] }).errors[0]?.pointer]).toEqual([
      400,
      '/files/0/filename',
    ]);
  });

  const half = (filename: string) =>
    `--cut\r\nContent-Disposition: form-data; name="a"; filename="${filename}"\r\n\r\nthe first half`;
  const startUpload = async (body: string): Promise<Socket> => {
    const { hostname, port } = new URL(gateway.url);
    const socket = connect(Number(port), hostname);
    const head = [
      `POST /v1/boxes/${box.id}/files HTTP/1.1`,
      'Host: localhost',
      `Authorization: Bearer ${gateway.key}`,
      'Content-Type: Multipart/Form-Data; boundary=cut',
      'Content-Length: 1000000',
    ];
    socket.write(`${head.join('\r\n')}\r\n\r\n${body}`);
    await once(socket, 'connect');
    return socket;
  };

  testOnce('a multipart part with a bad name is refused before its body has ended', async () => {
    const pid = gateway.pid();
    const socket = await startUpload(half('../escape.txt'));
    const [response] = (await once(socket, 'data')) as [Buffer];
    expect(response.toString()).toContain(' 400 ');
    expect(response.toString()).toContain('/files/0/filename');
    socket.destroy();
    expect((await gateway.call('/healthz')).status).toBe(200);
    expect(gateway.pid()).toBe(pid);
  });

  test.each(['half.txt', '../half.txt'])('a multipart upload of %s that is cut off leaves no file', async (name) => {
    const path = `/v1/boxes/${box.id}/files/half.txt`;
    const socket = await startUpload(half(name));
    // Gives the part time to be on its way to the box.
    await new Promise((next) => setTimeout(next, 200));
    socket.destroy();
    await new Promise((next) => setTimeout(next, 200));
    expect((await gateway.call('/healthz')).status).toBe(200);
    expect((await gateway.call(path)).status).toBe(404);
  });

  testOnce('HEAD returns the headers of GET, keeps the connection open and logs nothing', async () => {
    await put('head.txt', '0123456789');
    const logged = gateway.output();
    const agent = new Agent({ keepAlive: true, maxSockets: 1 });
    const send = (method: string) =>
      new Promise<{ status: number | undefined; length: string | undefined; text: string; port: number }>(
        (done, failed) => {
          const headers = { authorization: `Bearer ${gateway.key}` };
          const sent = request(gateway.url + at('head.txt'), { method, agent, headers }, async (response) => {
            const port = response.socket.localPort ?? 0;
            let text = '';
            for await (const chunk of response) text += chunk;
            done({ status: response.statusCode, length: response.headers['content-length'], text, port });
          });
          sent.once('error', failed).end();
        },
      );
    const [one, two, three] = [await send('HEAD'), await send('GET'), await send('HEAD')];
    agent.destroy();
    expect(one).toEqual({ status: 200, length: '10', text: '', port: one.port });
    expect(two).toEqual({ ...one, text: '0123456789' });
    expect(three).toEqual(one);
    expect((await gateway.call(at(''), { method: 'HEAD' })).status).toBe(200);
    expect((await gateway.call(at('missing.txt'), { method: 'HEAD' })).status).toBe(404);
    expect(gateway.output()).toBe(logged);
    expect(gateway.output()).not.toContain('MaxListeners');
  });

  testOnce('folders can be created, listed in pages and deleted with their contents', async () => {
    expect((await gateway.post(`/v1/boxes/${box.id}/files`, { op: 'mkdir', path: 'many/empty' })).status).toBe(201);
    await gateway.run(box.id, 'for i in range(25): open(f"many/{i:02}","w").close()');
    type Folder = { items: FileEntry[]; nextCursor: string | null };
    const names: string[] = [];
    for (let cursor: string | null = ''; cursor !== null; ) {
      const query: string = cursor === '' ? '' : `&cursor=${encodeURIComponent(cursor)}`;
      const page: Folder = (await gateway.get<Folder>(`${at('many')}?limit=10${query}`)).body;
      names.push(...page.items.map((entry) => entry.name));
      cursor = page.nextCursor;
    }
    expect(names).toEqual([...Array.from({ length: 25 }, (_, i) => String(i).padStart(2, '0')), 'empty']);
    expect((await gateway.call(at('many'), { method: 'DELETE' })).status).toBe(204);
    expect((await gateway.call(at('many'))).status).toBe(404);
  });

  test('reading a FIFO is refused at once, and a symbolic link leads no further than the box', async () => {
    await gateway.run(
      box.id,
      'import os\nos.mkfifo("pipe"); os.symlink("/etc/passwd", "link"); os.symlink("/", "root")',
    );
    expect((await gateway.call(at('pipe'))).status).toBe(400);
    const inside = await gateway.run(box.id, 'open("/etc/passwd").read()');
    const through = await gateway.call(at('link'));
    const text = await through.text();
    if (through.status === 200) expect(`'${text.replaceAll('\n', '\\n')}'`).toBe(inside.text);
    else expect(through.status).toBe(400);
  });

  testOnce(
    'a file that is written and deleted concurrently exists whole or not at all, as the responses state',
    async () => {
      const remove = (path: string) => gateway.call(at(path), { method: 'DELETE' });
      const rounds = Array.from({ length: 30 }, (_, round) => round);
      for (const round of rounds) {
        const text = `${round} `.repeat(5000);
        const [written, removed] = await Promise.all([put('raced/one.txt', text), remove('raced/one.txt')]);
        expect([200, 201]).toContain(written.status);
        expect([204, 404]).toContain(removed.status);
        const read = await gateway.call(at('raced/one.txt'));
        // If there was nothing to delete, the write came later.
        if (removed.status === 404) expect(read.status).toBe(200);
        if (read.status === 200) expect(await read.text()).toBe(text);
        else expect(read.status).toBe(404);
      }
    },
  );

  test('deleting a box during uploads ends it, and no request gets a 5xx', async () => {
    const other = await gateway.createBox();
    const path = `/v1/boxes/${other.id}`;
    const writes = Array.from({ length: 20 }, (_, n) =>
      gateway.call(`${path}/files/${n}.txt`, { method: 'PUT', body: 'x'.repeat(100_000) }),
    );
    const removals = [gateway.call(path, { method: 'DELETE' }), gateway.call(path, { method: 'DELETE' })];
    for (const { status } of await Promise.all(removals)) expect([200, 202, 204]).toContain(status);
    for (const { status } of await Promise.all(writes)) expect([200, 201, 404, 409, 410]).toContain(status);
    expect((await gateway.get<Box>(path)).body.state).toBe('deleted');
  });
});
