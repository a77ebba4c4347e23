import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { createClient } from '#contract';
import { anyDriver, collect, drivers, eventually, type RunningGateway, startGateway } from '../api/harness.ts';
import { rawRequest } from '../api/servers.ts';
import { freePort } from '../free-port.ts';
import { readPage } from '../pages.ts';
import { printVersions, pythonClients } from './clients.ts';

const version = 'open-terminal==0.14.5';
let python = '';
beforeAll(async () => {
  python = await pythonClients(version);
  printVersions('Open Terminal', [version]);
}, 600_000);

interface Server {
  url: string;
  key: string;
  /** Its home folder. */
  home: string;
}

interface Process {
  id: string;
  status: string;
  exit_code: number | null;
  output: { data: string }[];
  next_offset: number;
}

/** Uses every call as Open WebUI does, and resolves with what the server responded, with its home folder as `~`. */
const use = async ({ url, key, home }: Server, user = 'ada') => {
  const call = async (method: string, path: string, body?: unknown) => {
    const headers: Record<string, string> = { authorization: `Bearer ${key}`, 'x-user-id': user };
    const isForm = body instanceof FormData;
    if (body !== undefined && !isForm) headers['content-type'] = 'application/json';
    const sent = body === undefined ? null : isForm ? body : JSON.stringify(body);
    const response = await fetch(`${url}${path}`, { method, headers, body: sent });
    const text = (await response.text()).replaceAll(home, '~');
    const isJson = response.headers.get('content-type')?.startsWith('application/json');
    return { status: response.status, body: isJson ? JSON.parse(text) : text };
  };
  const process = ({ status, body }: { status: number; body: unknown }) => {
    const { output = [], ...run } = body as Process;
    const text = output
      .map(({ data }) => data)
      .join('')
      .replaceAll('\r\n', '\n');
    return [status, run.status, run.exit_code, text];
  };
  const execute = async (command: string, more = {}) =>
    process(await call('POST', '/execute?wait=20', { command, ...more }));
  const form = new FormData();
  form.append('file', new Blob(['up']), 'up.txt');
  const reader = (await call('POST', '/execute', { command: 'read line; echo "got $line"' })).body as Process;
  const sleeper = (await call('POST', '/execute', { command: 'sleep 60' })).body as Process;
  const listed = (await call('GET', '/execute')).body as Process[];
  const named = (entries: { name: string; type: string; size: number }[]) =>
    entries.map(({ name, type, size }) => [name, type, type === 'file' ? size : 0]);
  const list = async (folder: string) => {
    const { status, body } = await call('GET', `/files/list?directory=${folder}`);
    return status === 200 ? { ...body, entries: named(body.entries) } : [status];
  };
  const failed = async (...request: Parameters<typeof call>) => (await call(...request)).status;

  return {
    health: await call('GET', '/health'),
    features: Object.keys((await call('GET', '/api/config')).body.features),
    write: await call('POST', '/files/write', { path: 'sub/a.txt', content: 'one\ntwo\nthree\n' }),
    read: await call('GET', '/files/read?path=sub/a.txt'),
    lines: await call('GET', `/files/read?path=${home}/sub/a.txt&start_line=2&end_line=2`),
    replace: await call('POST', '/files/replace', {
      path: 'sub/a.txt',
      replacements: [{ target: 'two', replacement: '2' }],
    }),
    missingTarget: await failed('POST', '/files/replace', {
      path: 'sub/a.txt',
      replacements: [{ target: 'none', replacement: '' }],
    }),
    display: await call('GET', '/files/display?path=none'),
    mkdir: await call('POST', '/files/mkdir', { path: `${home}/sub/folder` }),
    upload: await call('POST', `/files/upload?directory=${home}/sub`, form),
    move: await call('POST', '/files/move', { source: `${home}/sub/up.txt`, destination: `${home}/sub/moved.txt` }),
    list: await list('sub'),
    grep: [
      await call('GET', '/files/grep?query=^t.*e$'),
      await call('GET', '/files/grep?query=THREE&path=sub&case_insensitive=true&include=*.txt'),
      await call('GET', `/files/grep?query=e$&regex=false&path=${home}/sub/a.txt`),
      await call('GET', '/files/grep?query=e&match_per_line=false&max_results=1'),
      await call('GET', '/files/grep?query=e&include=*.py'),
      await failed('GET', '/files/grep?query=('),
      await failed('GET', '/files/grep?query=a&path=none'),
      await failed('GET', '/files/grep?query=a&max_results=501'),
    ],
    view: await call('GET', `/files/view?path=${home}/sub/a.txt`),
    serve: await call('GET', `/files/serve${home}/sub/a.txt`),
    delete: await call('DELETE', `/files/delete?path=${home}/sub/folder`),
    remaining: await list('sub'),
    echo: await execute('echo $((6 * 7)); cat sub/a.txt; exit 3', { env: { A: 'b' } }),
    folder: await execute('pwd; echo $A', { cwd: `${home}/sub`, env: { A: 'b' } }),
    input: await call('POST', `/execute/${reader.id}/input`, { input: 'hi\\n' }),
    answer: process(await call('GET', `/execute/${reader.id}/status?wait=20`)).slice(0, 3),
    listed: [reader, sleeper].map(({ id }) => listed.find((each) => each.id === id)?.status),
    kill: await call('DELETE', `/execute/${sleeper.id}`),
    missing: [
      await failed('GET', '/files/read?path=none'),
      await failed('GET', '/files/list?directory=none'),
      await failed('DELETE', `/files/delete?path=${home}/none`),
      await failed('GET', '/execute/none/status'),
      await failed('POST', '/execute', {}),
      await failed('POST', '/execute?wait=1000', { command: 'true' }),
      await failed('GET', '/files/read'),
    ],
  };
};

describe.each(drivers)('the Open Terminal dialect on the %s driver', (driver) => {
  let gateway: RunningGateway;
  beforeAll(async () => {
    gateway = await startGateway(driver, { CODEBOX_DIALECTS: 'openterminal' });
  });
  afterAll(() => gateway?.dispose());

  const server = (key = gateway.key): Server => ({ url: `${gateway.url}/openterminal`, key, home: '/mnt/data' });

  test('commands and files work as with the reference server', async () => {
    const home = await mkdtemp(join(tmpdir(), 'codebox-terminal-'));
    const port = await freePort();
    const options = ['--host', '127.0.0.1', '--port', String(port), '--api-key', 'reference', '--cwd', home];
    let reference: ChildProcess | undefined;
    try {
      reference = spawn(python, ['-m', 'open_terminal', 'run', ...options], {
        stdio: 'ignore',
        env: { ...process.env, HOME: home },
      });
      const url = `http://127.0.0.1:${port}`;
      await eventually(() =>
        fetch(`${url}/health`).then(
          ({ ok }) => ok,
          () => false,
        ),
      );
      const expected = await use({ url, key: 'reference', home });
      expect(await use(server())).toEqual(expected);
      const found = [{ file: '~/sub/a.txt', line: 3, content: 'three' }];
      expect(expected.grep[0]).toMatchObject({ status: 200, body: { matches: found, truncated: false } });
      expect(expected).toMatchObject({ echo: [200, 'done', 3, '42\none\n2\nthree\n'], listed: ['running', 'running'] });
    } finally {
      if (reference?.kill()) await once(reference, 'exit');
      await rm(home, { recursive: true, force: true });
    }
  });

  if (!anyDriver.includes(driver)) return;

  test('each user has a box of their own, whose tools are listed for models', async () => {
    const { url, key } = server();
    const call = (user: string, path: string, by = key) =>
      fetch(url + path, { headers: { authorization: `Bearer ${by}`, 'x-user-id': user } });
    const written = { method: 'POST', headers: { authorization: `Bearer ${key}`, 'x-user-id': 'ada' } };
    await fetch(`${url}/files/write`, { ...written, body: '{"path": "mine", "content": "x"}' });
    const read = '/files/read?path=mine';
    expect((await call('ada', read)).status).toBe(200);
    const other = await gateway.addTenant();
    // A user who only reads gets no box.
    for (const [user, by] of [
      ['bob', key],
      ['ada', other],
    ] as const) {
      for (const path of [read, '/files/view?path=mine', '/files/list?directory=sub', '/execute/none/status'])
        expect([path, (await call(user, path, by)).status]).toEqual([path, 404]);
      expect(await (await call(user, '/files/list', by)).json()).toMatchObject({ entries: [] });
      expect(await (await call(user, '/files/display?path=mine', by)).json()).toMatchObject({ exists: false });
      expect(await (await call(user, '/execute', by)).json()).toEqual([]);
    }
    expect(await collect(createClient({ url: gateway.url, key: other }).boxes.list())).toEqual([]);
    const { paths } = (await (await fetch(`${url}/openapi.json`)).json()) as {
      paths: Record<string, Record<string, object>>;
    };
    expect(Object.values(paths).flatMap((methods) => Object.values(methods))).toHaveLength(11);
    expect(paths['/execute']?.post).toMatchObject({
      operationId: 'run_command',
      parameters: [
        { name: 'wait', in: 'query', required: false, schema: { type: 'number', minimum: 0, maximum: 300 } },
        { name: 'tail', in: 'query', required: false },
      ],
      requestBody: { content: { 'application/json': { schema: { required: ['command'] } } } },
    });
  });

  test('bad input gets an error in the format of FastAPI', async () => {
    const call = async (method: string, path: string, body?: unknown, headers: Record<string, string> = {}) => {
      const sent = typeof body === 'string' ? body : JSON.stringify(body);
      const identity = { 'x-user-id': 'ada', ...headers };
      const { response, text } = await rawRequest(gateway, `/openterminal${path}`, { method, headers: identity }, sent);
      return [response.statusCode, JSON.parse(text)];
    };
    const text = { detail: expect.any(String) };
    const at = (...loc: string[]) => ({ detail: [expect.objectContaining({ loc })] });
    const cases: [unknown, number, unknown][] = [
      [await call('POST', '/execute', '{'), 422, { detail: expect.any(Array) }],
      [await call('POST', '/execute', {}), 422, at('body', 'command')],
      [await call('GET', '/execute', undefined, { 'x-user-id': '' }), 422, at('headers', 'X-User-Id')],
      [await call('GET', '/files/read?path=/etc/passwd'), 404, text],
      [await call('GET', '/files/read?path=a%00'), 422, at('query', 'path')],
      [await call('GET', '/files/serve/etc/passwd'), 404, text],
      [await call('DELETE', '/files/delete?path=.'), 400, text],
      [await call('POST', '/files/upload?directory=.', '{}'), 422, { detail: expect.any(Array) }],
      [await call('GET', '/api/terminals'), 404, text],
      [await call('PUT', '/execute'), 405, text],
      [await call('GET', '/execute', undefined, { authorization: 'Bearer none' }), 401, text],
      [await call('GET', '/execute', undefined, { authorization: '', 'x-api-key': gateway.key }), 401, text],
    ];
    for (const [index, [actual, status, body]] of cases.entries())
      expect([index, actual]).toEqual([index, [status, body]]);
  });
});

test('the page of the dialect lists the tested version', async () => {
  expect(await readPage('docs/dialects/openterminal.md')).toContain(version.replace(/(.+)==(.+)/, '`$1` $2'));
});
