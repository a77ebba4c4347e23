import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { WebSocket } from 'ws';
import { createClient } from '#contract';
import { anyDriver, collect, drivers, eventually, type RunningGateway, startGateway } from '../api/harness.ts';
import { rawRequest } from '../api/servers.ts';
import { freePort } from '../free-port.ts';
import { readPage } from '../pages.ts';
import { printVersions, pythonClients } from './clients.ts';

const version = 'open-terminal==0.14.5';
let python = '';
beforeAll(async () => {
  // The reference server runs notebooks only with these.
  python = await pythonClients(version, 'nbclient==0.11.0', 'ipykernel==7.4.0');
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

type Lines = string | string[] | undefined;
interface StoredOutput {
  text?: Lines;
  data?: Record<string, Lines>;
}
/** A notebook may have a text as a list of its lines. */
const joined = (lines: Lines): string => [lines ?? []].flat().join('');

/** Starts a terminal and types into it, and resolves with what it showed and how its connections ended. */
const useTerminal = async (
  { url, key }: Server,
  call: (method: string, path: string, body?: unknown) => Promise<{ status: number; body: unknown }>,
  user: string,
) => {
  const { status, body } = await call('POST', '/api/terminals');
  const { id } = body as { id: string };
  const connect = async (terminal: string, token: string) => {
    // Open WebUI names the user in the query, and the reference server reads the header.
    const to = `${url.replace('http', 'ws')}/api/terminals/${terminal}?user_id=${user}`;
    const socket = new WebSocket(to, { headers: { 'x-user-id': user } });
    let shown = '';
    socket.on('message', (data: Buffer) => (shown += data.toString()));
    const closed = once(socket, 'close').then(([code]) => code as number);
    await once(socket, 'open');
    socket.send(JSON.stringify({ type: 'auth', token }));
    return { socket, closed, shows: (part: RegExp) => eventually(async () => part.test(shown)) };
  };
  const listed = ((await call('GET', '/api/terminals')).body as { id: string }[]).map((each) => each.id === id);
  const refused = await (await connect(id, 'wrong')).closed;
  const { socket, closed, shows } = await connect(id, key);
  socket.send(JSON.stringify({ type: 'resize', cols: 133, rows: 41 }));
  socket.send(Buffer.from('echo $((6 * 7)); stty size\n'));
  await shows(/\b42\b[\s\S]*\b41 133\b/);
  const taken = await (await connect(id, key)).closed;
  const typed = await call('POST', '/api/terminals/user/input', { input: 'echo $((7 * 7))\n' });
  await shows(/\b49\b/);
  const read = (await call('GET', '/api/terminals/user/output')).body as { output: string };
  const isRead = /\b42\b[\s\S]*\b49\b/.test(read.output);
  socket.close();
  await closed;
  await eventually(async () => (await call('GET', `/api/terminals/${id}`)).status === 404);
  const other = ((await call('POST', '/api/terminals')).body as { id: string }).id;
  const ends = [await call('DELETE', `/api/terminals/${other}`), await call('DELETE', `/api/terminals/${other}`)];
  const unused = [await call('GET', '/api/terminals/user/output')];
  return { status, keys: Object.keys(body as object), listed, refused, taken, typed, isRead, ends, unused };
};

/** Uses every call as Open WebUI does, and resolves with what the server responded, with its home folder as `~`. */
const use = async ({ url, key, home }: Server, port: number, user = 'ada') => {
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
  const notebook = async () => {
    const path = `${home}/book.ipynb`;
    const cell = (source: string) => ({ cell_type: 'code', source, metadata: {}, outputs: [], execution_count: null });
    const cells = [cell('x = 20\nprint("hi")'), cell('none'), cell('1 / 0')];
    const content = JSON.stringify({ nbformat: 4, nbformat_minor: 4, metadata: {}, cells });
    await call('POST', '/files/write', { path, content });
    const { id, ...started } = (await call('POST', '/notebooks', { path })).body;
    const run = (cell_index: number, source?: string) =>
      call('POST', `/notebooks/${id}/execute`, { cell_index, source });
    const ran = [await run(0), await run(1, 'x + 22')];
    const stored = JSON.parse((await call('GET', `/files/read?path=${path}`)).body.content).cells.slice(0, 2);
    return {
      started,
      ran,
      stored: stored.map(({ source, outputs }: { source: string | string[]; outputs: StoredOutput[] }) => [
        joined(source),
        outputs.map(({ text, data, ...rest }) => ({ ...rest, text: joined(text), data: joined(data?.['text/plain']) })),
      ]),
      error: [(await run(2)).body.status, await failed('POST', `/notebooks/${id}/execute`, { cell_index: 3 })],
      read: { ...(await call('GET', `/notebooks/${id}`)).body, id: '' },
      ended: [await call('DELETE', `/notebooks/${id}`), await call('GET', `/notebooks/${id}`)],
      missing: await failed('POST', '/notebooks', { path: 'none.ipynb' }),
    };
  };
  const servers = async () => {
    const command = `cd sub && exec python3 -m http.server ${port} --bind 127.0.0.1`;
    const { id } = (await call('POST', '/execute', { command })).body;
    const find = async () =>
      (await call('GET', '/ports')).body.ports.find((one: { port: number }) => one.port === port);
    const { pid, ...found } = await eventually(find);
    // The reference server looks for the port with each request, and misses it at times.
    const reach = async (method: string, path: string, body?: unknown) => {
      const response = await eventually(async () => {
        const tried = await call(method, path, body);
        return tried.status !== 404 && tried;
      });
      return response;
    };
    const got = await reach('GET', `/proxy/${port}/a.txt?x=1`);
    const posted = (await reach('POST', `/proxy/${port}/`, {})).status;
    await call('DELETE', `/execute/${id}`);
    return { found, isProcess: pid > 0, got, posted, unknown: (await failed('GET', '/proxy/1/')) >= 400 };
  };

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
    servers: await servers(),
    notebook: await notebook(),
    terminal: await useTerminal({ url, key, home }, call, user),
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
      const expected = await use({ url, key: 'reference', home }, await freePort());
      expect(await use(server(), expected.servers.found.port)).toEqual(expected);
      const found = [{ file: '~/sub/a.txt', line: 3, content: 'three' }];
      expect(expected.grep[0]).toMatchObject({ status: 200, body: { matches: found, truncated: false } });
      expect(expected).toMatchObject({ echo: [200, 'done', 3, '42\none\n2\nthree\n'], listed: ['running', 'running'] });
      expect(expected.notebook.ran[1]).toMatchObject({ body: { outputs: [{ data: { 'text/plain': '42' } }] } });
      expect(expected.terminal).toMatchObject({ refused: 4001, taken: 4009, isRead: true });
    } finally {
      if (reference?.kill()) await once(reference, 'exit');
      await rm(home, { recursive: true, force: true });
    }
  }, 240_000);

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
      for (const path of [
        read,
        '/files/view?path=mine',
        '/files/list?directory=sub',
        '/execute/none/status',
        '/api/terminals/none',
        '/notebooks/none',
        '/proxy/80/',
      ])
        expect([path, (await call(user, path, by)).status]).toEqual([path, 404]);
      expect(await (await call(user, '/files/list', by)).json()).toMatchObject({ entries: [] });
      expect(await (await call(user, '/files/display?path=mine', by)).json()).toMatchObject({ exists: false });
      expect(await (await call(user, '/execute', by)).json()).toEqual([]);
      expect(await (await call(user, '/api/terminals', by)).json()).toEqual([]);
      expect(await (await call(user, '/ports', by)).json()).toEqual({ ports: [] });
    }
    expect(await collect(createClient({ url: gateway.url, key: other }).boxes.list())).toEqual([]);
    const { paths } = (await (await fetch(`${url}/openapi.json`)).json()) as {
      paths: Record<string, Record<string, object>>;
    };
    expect(Object.values(paths).flatMap((methods) => Object.values(methods))).toHaveLength(13);
    expect(paths['/execute']?.post).toMatchObject({
      operationId: 'run_command',
      parameters: [
        { name: 'wait', in: 'query', required: false, schema: { type: 'number', minimum: 0, maximum: 300 } },
        { name: 'tail', in: 'query', required: false },
      ],
      requestBody: { content: { 'application/json': { schema: { required: ['command'] } } } },
    });
  });

  test('a text keeps its byte order mark when a part of it is replaced', async () => {
    const { url, key } = server();
    const headers = { authorization: `Bearer ${key}`, 'x-user-id': 'ada', 'content-type': 'application/json' };
    const post = async (path: string, body: unknown) =>
      (await fetch(url + path, { method: 'POST', headers, body: JSON.stringify(body) })).status;
    expect(await post('/files/write', { path: 'excel.csv', content: '\ufeffÄpfel;1' })).toBe(200);
    const replacements = [{ target: '1', replacement: '2', start_line: 1, end_line: 1 }];
    expect(await post('/files/replace', { path: 'excel.csv', replacements })).toBe(200);
    const served = await fetch(`${url}/files/view?path=excel.csv`, { headers });
    expect(Buffer.from(await served.arrayBuffer()).toString('hex')).toBe(Buffer.from('\ufeffÄpfel;2').toString('hex'));
  });

  test('the list of ports does not wake a box', async () => {
    const { url, key } = server();
    const headers = { authorization: `Bearer ${key}`, 'x-user-id': 'eve' };
    await fetch(`${url}/files/write`, { method: 'POST', headers, body: '{"path": "mine", "content": "x"}' });
    const [box] = await collect(gateway.client.boxes.list({ user: 'openterminal/eve' }));
    await gateway.client.boxes.hibernate(box?.id ?? '');
    expect(await (await fetch(`${url}/ports`, { headers })).json()).toEqual({ ports: [] });
    expect(await gateway.client.boxes.read(box?.id ?? '')).toMatchObject({ state: 'hibernated' });
  });

  test('clients of one address that have sent no key do not keep out those of others', async () => {
    const to = `${server().url.replace('http', 'ws')}/api/terminals/none?user_id=ada`;
    const connect = async (localAddress: string) => {
      const socket = new WebSocket(to, { localAddress });
      const refused = once(socket, 'unexpected-response').then(([, { statusCode }]) => statusCode as number);
      const opened = once(socket, 'open').then(() => 101);
      // Whichever does not happen is rejected when the socket is closed.
      for (const each of [refused, opened]) each.catch(() => {});
      return { socket, status: await Promise.race([refused, opened]) };
    };
    const clients = await Promise.all(Array.from({ length: 25 }, () => connect('127.0.0.1')));
    try {
      clients.push(await connect('127.0.0.1'), await connect('127.0.0.2'));
      expect(clients.map(({ status }) => status)).toEqual([...Array(25).fill(101), 429, 101]);
    } finally {
      for (const { socket } of clients) socket.terminate();
    }
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
      [await call('GET', '/api/terminals/none'), 404, { error: expect.any(String) }],
      [await call('GET', '/api/terminals', undefined, { authorization: '' }), 401, text],
      [await call('GET', '/proxy/0/'), 422, at('body', 'path', 'port')],
      [await call('GET', '/proxy/4/'), 502, text],
      [await call('POST', '/notebooks', { path: 'mine' }), 400, text],
      [await call('GET', '/notebooks/none'), 404, text],
      [await call('GET', '/notebooks/a%20b'), 404, text],
      [await call('DELETE', '/notebooks/a%20b'), 404, text],
      [await call('GET', '/p/x/health'), 404, text],
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
