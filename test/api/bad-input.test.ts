import { once } from 'node:events';
import { type IncomingMessage, request } from 'node:http';
import { text } from 'node:stream/consumers';
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Box, Problem } from '#contract';
import { anyText, encode } from './any-text.ts';
import { cpuMsOf, drivers, type GatewayProcess, memoryOf, startGatewayProcess } from './harness.ts';

const cursorAt = (milliseconds: number) => Buffer.from(`${milliseconds} x`).toString('base64url');
const megabyte = 1024 * 1024;

describe.each(drivers.slice(0, 1))('bad input, on the %s driver', (driver) => {
  let gateway: GatewayProcess;
  let box: Box;
  beforeAll(async () => {
    gateway = await startGatewayProcess(driver);
    box = await gateway.createBox();
  });
  afterAll(() => gateway?.dispose());

  /** Sends a path verbatim, where `fetch` would normalize it. */
  const raw = (method: string, path: string, body?: string): Promise<{ status: number; problem: Problem }> =>
    new Promise((done, failed) => {
      const sent = request(
        gateway.url,
        { method, path, headers: { authorization: `Bearer ${gateway.key}` } },
        (response) => {
          let text = '';
          response.on('data', (chunk: Buffer) => {
            text += chunk.toString();
          });
          response.on('end', () =>
            done({ status: response.statusCode ?? 0, problem: JSON.parse(text || '{}') as Problem }),
          );
        },
      );
      sent.once('error', failed);
      sent.end(body);
    });

  const expectProblem = (actual: { status: number; body: unknown }, status: number, code: string, pointer?: string) => {
    const problem = actual.body as Problem;
    expect([actual.status, problem.status, problem.code]).toEqual([status, status, code]);
    expect(problem.requestId).not.toBe('');
    expect(problem.detail).not.toMatch(/\/work|node_modules|at .*\.ts|select |insert /i);
    if (pointer !== undefined) expect(problem.errors?.map((fault) => fault.pointer)).toContain(pointer);
  };

  test.each([
    [{ nonsense: 1 }, '/nonsense'],
    [{ limits: { memoryMb: '512' } }, '/limits/memoryMb'],
    [{ limits: { memoryMb: -1 } }, '/limits/memoryMb'],
    [{ limits: { cpus: 0 } }, '/limits/cpus'],
    [{ limits: { pids: 1e308 } }, '/limits/pids'],
    [{ limits: { memoryMb: 2 ** 53 } }, '/limits/memoryMb'],
    [{ limits: { memoryMb: 500_000 } }, '/limits/memoryMb'],
    [{ limits: { cpus: 33, other: 1 } }, '/limits/other'],
    [{ limits: null }, '/limits'],
    [{ idleSeconds: -5 }, '/idleSeconds'],
    [{ template: 'no-such' }, '/template'],
    [{ network: 'everything' }, '/network'],
    [{ reuse: true }, '/user'],
    [{ env: { 'A=B': 'x' } }, '/env/A=B'],
    [{ env: { A: 'nul\0' } }, '/env/A'],
    [{ metadata: { a: 5 } }, '/metadata/a'],
    [{ files: [{ path: '../x', text: '' }] }, '/files/0/path'],
    [{ files: [{ path: 'x' }] }, '/files/0'],
    [{ files: [{ path: 'x', text: '\ud800' }] }, '/files/0/text'],
    [{ files: [{ path: '\udfff', text: '' }] }, '/files/0/path'],
    [{ user: 'a\0b' }, '/user'],
    [{ user: '\ud800' }, '/user'],
    [{ template: '\0' }, '/template'],
    [{ metadata: { a: '\0' } }, '/metadata/a'],
    [{ metadata: { a: '\ud800' } }, '/metadata/a'],
    [{ metadata: { '\0': 'x' } }, '/metadata/\0'],
    [{ metadata: { '\ud800': 'x' } }, '/metadata/\ud800'],
    [{ env: { A: '\udfff' } }, '/env/A'],
    [{ files: [{ path: 'x', base64: '%%%' }] }, '/files/0/base64'],
    [[], ''],
    ['text', ''],
  ])('POST /v1/boxes %j is a 400 at %s', async (body, pointer) => {
    expectProblem(await gateway.post('/v1/boxes', body), 400, 'invalid_request', pointer === '' ? undefined : pointer);
  });

  test.each([
    [{}, '/code', 'is required'],
    [{ code: 5 }, '/code', 'must be a string'],
    [{ code: '1', language: 'cobol' }, '/language'],
    [{ code: '1', language: 'Python' }, '/language', 'must be the name of a language in lower case, such as python'],
    [
      { code: '1', language: 'pyhton' },
      '/language',
      'is not a language of this box; it has python, javascript, typescript, bash; did you mean python?',
    ],
    [{ code: '1', timeout: 10 }, '/timeout', 'is not a known key; did you mean timeoutSeconds?'],
    [{ code: '1', timeoutSeconds: 0 }, '/timeoutSeconds', 'must be at least 0.1'],
    [{ code: '1', timeoutSeconds: 1e9 }, '/timeoutSeconds'],
    [{ code: '1', context: 'x', language: 'python' }, '/language'],
    [{ code: '1', context: 'a\0' }, '/context'],
    [{ code: '1', context: '\ud800' }, '/context'],
    [{ code: 'print("\ud800")' }, '/code'],
    [{ code: '1', __proto__x: 1 }, '/__proto__x'],
  ])('an execution %j is a 400 at %s', async (body, pointer, detail?: string) => {
    const response = await gateway.post(`/v1/boxes/${box.id}/executions`, body);
    expectProblem(response, 400, 'invalid_request', pointer);
    if (detail !== undefined) expect(response.body).toMatchObject({ errors: [{ detail }] });
  });

  test.each([
    [{ command: 'a\0b' }, '/command'],
    [{ command: '\ud800' }, '/command'],
    [{ argv: ['echo', 'a\0b'] }, '/argv/1'],
    [{ command: 'true', cwd: 'a\0b' }, '/cwd'],
  ])('a command %j is a 400 at %s', async (body, pointer) => {
    expectProblem(await gateway.post(`/v1/boxes/${box.id}/commands`, body), 400, 'invalid_request', pointer);
  });

  test.each([['../../../etc'], ['/etc'], ['a\0'], ['\ud800'], ['']])(
    'a context in the folder %j is a 400 at /cwd',
    async (cwd) => {
      const response = await gateway.post(`/v1/boxes/${box.id}/contexts`, { language: 'python', cwd });
      expectProblem(response, 400, 'invalid_request', '/cwd');
    },
  );

  test('a body that is not JSON or UTF-8, nested too deep or too large is refused without growing the gateway', async () => {
    const send = async (body: string | Uint8Array<ArrayBuffer>) => {
      const response = await gateway.call('/v1/boxes', { method: 'POST', body, duplex: 'half' } as RequestInit);
      return { status: response.status, body: await response.json() };
    };
    expectProblem(await send('{"a":'), 400, 'invalid_request', '');
    const torn = (await send('{"code": "a = 1\nb = 2"}')).body as Problem;
    expect(torn.detail).toContain('at line 1, column 16 (offset 15): there is a line break inside a string');
    expectProblem(await send(new Uint8Array([0x7b, 0x22, 0xff, 0x22, 0x7d])), 400, 'invalid_request', '');
    expectProblem(await send('{"metadata":{"a":NaN}}'), 400, 'invalid_request');
    expectProblem(await send(`{"metadata":${'['.repeat(100_000)}${']'.repeat(100_000)}}`), 413, 'too_large', '');
    expectProblem(await send('{"__proto__":{"x":1}}'), 400, 'invalid_request');
    const before = await memoryOf(gateway.pid());
    let sent = 0;
    const huge = new ReadableStream({
      pull(controller) {
        sent += 1;
        if (sent > 100) return controller.close();
        controller.enqueue(new Uint8Array(megabyte).fill(0x20));
      },
    });
    const cut = await gateway.call('/v1/boxes', { method: 'POST', body: huge, duplex: 'half' } as RequestInit).then(
      async (response) => ({ status: response.status, body: await response.json() }),
      () => 'cut' as const,
    );
    if (cut !== 'cut') expectProblem(cut, 413, 'too_large', '');
    const declared = await gateway.call('/v1/boxes', { method: 'POST', body: new Uint8Array(100 * megabyte) }).then(
      async (response) => ({ status: response.status, body: await response.json() }),
      () => 'cut' as const,
    );
    if (declared !== 'cut') expectProblem(declared, 413, 'too_large', '');
    expect((await memoryOf(gateway.pid())).peak - before.now).toBeLessThan(64 * megabyte);
    expect((await gateway.call('/healthz')).status).toBe(200);
  });

  test('a body with hundreds of thousands of entries is refused at little CPU cost', async () => {
    const keys = Array.from({ length: 600_000 }, (_, n) => `"k${n}":"v"`).join();
    const wrong = `{"path":5,${Array.from({ length: 12 }, (_, n) => `"k${n}":""`).join()}}`;
    const bodies = [
      ['/v1/boxes', `{"metadata":{${keys}}}`, 413],
      ['/v1/boxes', `{${keys}}`, 413],
      ['/v1/boxes', `{"env":{${keys}}}`, 413],
      ['/v1/boxes', `{"files":[${Array(145).fill(wrong).join()}]}`, 400],
      ['/v1/boxes', `{"files":[{"path":"a","url":"https://${'a'.repeat(9_000_000)}"}]}`, 400],
      [`/v1/boxes/${box.id}/executions`, `{"code":"","env":{${keys}}}`, 413],
      [`/v1/boxes/${box.id}/packages`, `{"packages":["a"]${' '.repeat(200_000)}}`, 413],
    ] as const;
    for (const [path, body, status] of bodies) {
      const before = await cpuMsOf(gateway.pid());
      const response = await gateway.call(path, { method: 'POST', body });
      expect(response.status).toBe(status);
      expect(((await response.json()) as Problem).errors?.length).toBeLessThanOrEqual(50);
      expect((await cpuMsOf(gateway.pid())) - before).toBeLessThan(400);
    }
  });

  test.each([
    ['../../etc/passwd', '/path'],
    ['a/../../x', '/path'],
    ['%2e%2e/x', '/path'],
    ['%2E%2E%2Fetc/passwd', '/path/path'],
    ['a%2f..%2f..%2fx', '/path/path'],
    ['/etc/passwd', '/path/path'],
    ['%2fetc%2fpasswd', '/path/path'],
    ['a%00b', '/path/path'],
    ['a//b', '/path/path'],
    ['%zz', '/path/path'],
    ['a'.repeat(4097), '/path/path'],
  ])('the file path %.40s is a 400 for every method', async (path, pointer) => {
    for (const method of ['GET', 'PUT', 'DELETE']) {
      const { status, problem } = await raw(
        method,
        `/v1/boxes/${box.id}/files/${path}`,
        method === 'PUT' ? 'x' : undefined,
      );
      expectProblem({ status, body: problem }, 400, 'invalid_request', pointer);
    }
  });

  test('a PUT to mnt/data below /mnt/data is refused as a likely mistake, while files that exist there can be read', async () => {
    const path = `/v1/boxes/${box.id}/files/mnt/data/x`;
    const put = await raw('PUT', path, 'x');
    expectProblem({ status: put.status, body: put.problem }, 400, 'invalid_request', '/path/path');
    expect((await raw('GET', path)).status).toBe(404);
    await gateway.run(box.id, 'import os; os.makedirs("mnt/data"); open("mnt/data/x", "w").close()');
    expect((await gateway.call(path)).status).toBe(200);
    expect((await gateway.call(path, { method: 'DELETE' })).status).toBe(204);
  });

  test('a path that only resembles a traversal stays inside the box', async () => {
    const { status } = await raw('PUT', `/v1/boxes/${box.id}/files/..%252f..%252fx`, 'inside');
    expect(status).toBe(201);
    expect((await gateway.run(box.id, 'open("..%2f..%2fx").read()')).text).toBe("'inside'");
    const fullwidth = encodeURIComponent('．．');
    expect((await raw('GET', `/v1/boxes/${box.id}/files/${fullwidth}/etc/passwd`)).status).toBe(404);
  });

  test.each([
    ['user=%00', '/query/user'],
    ['metadata=%00=x', '/query/metadata'],
    ['metadata=a=%00', '/query/metadata'],
    ['cursor=%00', '/query/cursor'],
    [`cursor=${cursorAt(8.64e15)}`, '/query/cursor'],
    [`cursor=${cursorAt(-8.64e15)}`, '/query/cursor'],
    [`cursor=${cursorAt(Date.parse('9999-12-31T23:59:59.999Z') + 1)}`, '/query/cursor'],
    ['__proto__=x', '/query/__proto__'],
    ['constructor=x', '/query/constructor'],
  ])('the query %s is a 400 at %s', async (query, pointer) => {
    expectProblem(await gateway.get(`/v1/boxes?${query}`), 400, 'invalid_request', pointer);
  });

  test('a malformed id gets the same 404 as a missing one', async () => {
    const call = async (path: string, method = 'GET') => {
      const { status, problem } = await raw(method, path);
      const { requestId: _, ...rest } = problem;
      return { status, rest };
    };
    const missingBox = await call(`/v1/boxes/box-${'a'.repeat(26)}`);
    const missing = await call(`/v1/boxes/${box.id}/executions/exe-none`);
    expect([missingBox.status, missing.status]).toEqual([404, 404]);
    for (const id of ['a%00b', '%ed%a0%80', '%ff', '%zz', 'a'.repeat(1000), '%20']) {
      expect(await call(`/v1/boxes/${id}`)).toEqual(missingBox);
      expect(await call(`/v1/boxes/${id}/executions`)).toEqual(missingBox);
      expect(await call(`/v1/boxes/${id}/files/x`)).toEqual(missingBox);
      expect(await call(`/v1/boxes/${box.id}/executions/${id}`)).toEqual(missing);
      expect((await call(`/v1/boxes/${box.id}/commands/${id}`)).status).toBe(404);
      expect((await call(`/v1/boxes/${box.id}/contexts/${id}`, 'DELETE')).status).toBe(404);
    }
  });

  test('no text in any field or path makes the gateway return a 5xx', async () => {
    const bodies: [string, (text: string) => unknown][] = [
      // The missing template keeps these calls from creating boxes where the text is valid.
      ['/v1/boxes', (text) => ({ user: text, template: 'no-such' })],
      ['/v1/boxes', (text) => ({ metadata: { [text]: text }, template: 'no-such' })],
      ['/v1/boxes', (text) => ({ env: { [text]: text }, template: 'no-such' })],
      ['/v1/boxes', (text) => ({ template: `${text}?` })],
      ['/v1/boxes', (text) => ({ files: [{ path: text, text }], template: 'no-such' })],
      [`/v1/boxes/${box.id}/executions`, (text) => ({ code: `# ${text}` })],
      [`/v1/boxes/${box.id}/executions`, (text) => ({ code: '1', context: text })],
      [`/v1/boxes/${box.id}/executions`, (text) => ({ code: '1', env: { A: text } })],
      [`/v1/boxes/${box.id}/commands`, (text) => ({ command: `: ${text}` })],
      [`/v1/boxes/${box.id}/commands`, (text) => ({ argv: ['true', text], env: { A: text } })],
      [`/v1/boxes/${box.id}/commands`, (text) => ({ command: 'true', cwd: text })],
    ];
    const paths: ((text: string) => string)[] = [
      (text) => `/v1/boxes?user=${text}`,
      (text) => `/v1/boxes?metadata=a=${text}`,
      (text) => `/v1/boxes?metadata=${text}=a`,
      (text) => `/v1/boxes?cursor=${text}`,
      (text) => `/v1/boxes?${text}=${text}`,
      (text) => `/v1/boxes/${text}`,
      (text) => `/v1/boxes/${text}/executions/${text}`,
      (text) => `/v1/boxes/${box.id}/executions/${text}`,
      (text) => `/v1/boxes/${box.id}/executions?cursor=${text}`,
      (text) => `/v1/boxes/${box.id}/commands/${text}/events`,
      (text) => `/v1/boxes/${box.id}/files/${text}`,
      (text) => `/v1/boxes/${box.id}/files/?cursor=${text}`,
    ];
    await fc.assert(
      fc.asyncProperty(anyText, fc.constantFrom(...bodies), async (text, [path, body]) => {
        const { status, body: received } = await gateway.post(path, body(text));
        expect(status, JSON.stringify(received)).toBeLessThan(500);
      }),
      { numRuns: 150 },
    );
    await fc.assert(
      fc.asyncProperty(anyText, fc.constantFrom(...paths), async (text, path) => {
        expect((await raw('GET', path(encode(text)))).status).toBeLessThan(500);
      }),
      { numRuns: 200 },
    );
  });

  test('a 401 says whether the key is missing or not valid, and the same about any key that is not valid', async () => {
    const wrong = `${gateway.key.slice(0, -6)}000000`;
    const call = async (headers: Record<string, string>, query = '') => {
      const response = await fetch(`${gateway.url}/v1/boxes${query}`, { headers });
      const { requestId: _, ...problem } = (await response.json()) as Problem;
      return { status: response.status, challenge: response.headers.get('www-authenticate'), problem };
    };
    const none = await call({});
    expect(none).toMatchObject({ status: 401, problem: { code: 'unauthorized' } });
    expect(none.challenge).toContain('Bearer');
    expect(none.problem.detail).toBe('A valid API key is needed: Authorization: Bearer cbx_…');
    const refused = await call({ authorization: `Bearer ${wrong}` });
    const detail = `${none.problem.detail}; the key that was sent is not valid`;
    expect(refused).toEqual({ ...none, problem: { ...none.problem, detail } });
    expect(await call({ 'x-api-key': 'cbx_' })).toEqual(refused);
    expect((await call({ 'x-api-key': gateway.key })).status).toBe(200);
  });

  test('a key sent in another form, valid or not, is a 401 that names the expected form', async () => {
    const wrong = `${gateway.key.slice(0, -6)}000000`;
    const call = async (headers: Record<string, string>, query = '') => {
      const response = await fetch(`${gateway.url}/v1/boxes${query}`, { headers });
      return { status: response.status, detail: ((await response.json()) as Problem).detail };
    };
    for (const key of [gateway.key, wrong]) {
      const refusals: [string, Awaited<ReturnType<typeof call>>][] = [
        ['the word Bearer is missing', await call({ authorization: key })],
        ['is of the kind Basic, not Bearer', await call({ authorization: `Basic ${key}` })],
        ['nothing behind Bearer', await call({ authorization: 'Bearer ' })],
        ['the header api-key is not read', await call({ 'api-key': key })],
        ['?api_key= is not read', await call({}, `?api_key=${key}`)],
      ];
      for (const [words, { status, detail }] of refusals) {
        expect([status, detail]).toEqual([401, expect.stringContaining(words)]);
        expect(detail).not.toContain(key);
      }
    }
  });

  test('the 404 of an unknown path suggests the call that was probably meant', async () => {
    const detailOf = async (method: string, path: string) => (await raw(method, path)).problem.detail;
    expect(await detailOf('POST', '/boxes')).toContain('Did you mean POST /v1/boxes?');
    expect(await detailOf('POST', '/v1/boxes/')).toContain('Did you mean POST /v1/boxes?');
    const execute = await detailOf('POST', `/v1/boxes/${box.id}/execute`);
    expect(execute).toContain(`Did you mean POST /v1/boxes/${box.id}/executions?`);
    expect(await detailOf('GET', '/v2/anything')).toMatch(/^There is nothing at this path\. All calls are/);
  });

  test('the error for an unknown template suggests the one that was probably meant', async () => {
    const { body } = await gateway.post('/v1/boxes', { template: 'pyton' });
    expect(body).toMatchObject({ errors: [{ detail: 'is not a template; there are python; did you mean python?' }] });
  });

  test.each([
    ['py', 'python', '6 * 7'],
    ['python3', 'python', '6 * 7'],
    ['js', 'javascript', '6 * 7'],
    ['sh', 'bash', 'echo 42'],
  ])('the language %s is accepted as %s', async (alias, language, code) => {
    const { body } = await gateway.post(`/v1/boxes/${box.id}/executions`, { language: alias, code });
    expect(body).toMatchObject({ status: 'ok', language });
  });

  test.each([
    ['the API', () => '/v1/templates'],
    ['no route', () => '/nothing'],
    ['a port', () => `/v1/boxes/${box.id}/ports/5000/`],
    ['a WebSocket', () => `/v1/boxes/${box.id}/ws`],
  ])('two Host headers are a 400 for %s', async (what, path) => {
    const upgrade = ['Connection', 'Upgrade', 'Upgrade', 'websocket', 'Sec-WebSocket-Version', '13'];
    const { host } = new URL(gateway.url);
    const sent = request(`${gateway.url}${path()}`, {
      headers: [
        ...['Host', host, 'host', 'other.example', 'Authorization', `Bearer ${gateway.key}`],
        ...(what === 'a WebSocket' ? [...upgrade, 'Sec-WebSocket-Key', 'AAAAAAAAAAAAAAAAAAAAAA=='] : []),
      ],
    }).end();
    const [response] = (await once(sent, 'response')) as [IncomingMessage];
    const body = JSON.parse(await text(response));
    expectProblem({ status: response.statusCode ?? 0, body }, 400, 'invalid_request', '/headers/Host');
  });

  test('a missing resource is a 404, a wrong method a 405 with Allow, an unknown query parameter a 400', async () => {
    expectProblem(await gateway.get(`/v1/boxes/box-${'a'.repeat(26)}`), 404, 'not_found');
    expectProblem(await gateway.get(`/v1/boxes/${box.id}/executions/exe-none`), 404, 'not_found');
    expectProblem(await gateway.get(`/v1/boxes/${box.id}/commands/cmd-none`), 404, 'not_found');
    expectProblem(await gateway.get(`/v1/boxes/${box.id}/files/none.txt`), 404, 'not_found');
    expectProblem(await gateway.get('/v2/anything'), 404, 'not_found');
    const wrong = await gateway.call('/v1/boxes', { method: 'DELETE' });
    expect([wrong.status, wrong.headers.get('allow')]).toEqual([405, 'POST, GET']);
    expectProblem(await gateway.get('/v1/boxes?limt=5'), 400, 'invalid_request', '/query/limt');
    expectProblem(await gateway.get('/v1/boxes?limit=0'), 400, 'invalid_request', '/query/limit');
    for (const limit of ['abc', '1.5']) {
      const detail = 'must be a whole number';
      expect((await gateway.get(`/v1/boxes?limit=${limit}`)).body).toMatchObject({ errors: [{ detail }] });
    }
    expectProblem(await gateway.get('/v1/boxes?cursor=zzz'), 400, 'invalid_request', '/query/cursor');
  });
});
