import { generateKeyPairSync, type KeyObject } from 'node:crypto';
import { type JWTPayload, SignJWT } from 'jose';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { anyDriver, collect, drivers, type RunningGateway, startGateway } from '../api/harness.ts';
import { rawRequest } from '../api/servers.ts';
import { readPage } from '../pages.ts';
import { npmClients, pasteDialectPage, printVersions, runJavaScript } from './clients.ts';

const version = '@librechat/agents@3.9.2';
/** Pinned: later versions in the range of a dependency do not load together with the other dependencies. */
const pinned = '@opentelemetry/exporter-trace-otlp-http@0.220.0';
let folder = '';
beforeAll(async () => {
  folder = await npmClients(version, pinned);
  printVersions('LibreChat', [version]);
}, 600_000);

/** Defines `run`, which calls the code tool as LibreChat's agents do, and resolves with its text and its artifact. */
const prelude = `
const { createCodeExecutionTool, createProgrammaticToolCallingTool, createBashProgrammaticToolCallingTool } = agents;
const tool = createCodeExecutionTool({ baseUrl: process.env.URL, authHeaders: { 'X-API-Key': process.env.KEY } });
const run = async (args, _injected_files) => {
  const call = { type: 'tool_call', id: 'call', name: tool.name, args, _injected_files };
  const { content, artifact } = await tool.invoke(call);
  return { content, artifact };
};
const failure = (promise) => promise.then(() => 'done', ({ message }) => message);
`;
const isId = expect.stringMatching(/^[\w-]{21}$/);

interface Upload {
  storage_session_id: string;
  files: { fileId: string; filename: string }[];
}

describe.each(drivers)('the LibreChat dialect on the %s driver', (driver) => {
  let gateway: RunningGateway;
  beforeAll(async () => {
    gateway = await startGateway(driver, { CODEBOX_DIALECTS: 'librechat' });
  });
  afterAll(() => gateway?.dispose());

  const js = <T>(body: string) =>
    runJavaScript<T>(folder, "import * as agents from '@librechat/agents';", prelude + body, {
      URL: `${gateway.url}/librechat`,
      KEY: gateway.key,
    });
  const upload = async (path: string, files: Record<string, string>): Promise<Upload> => {
    const form = new FormData();
    form.append('kind', 'user');
    form.append('id', 'ada');
    for (const [name, text] of Object.entries(files)) form.append('file', new Blob([text]), name);
    const sent = { method: 'POST', body: form, headers: { 'user-id': 'ada' } };
    return (await (await gateway.call(`/librechat/${path}`, sent)).json()) as Upload;
  };

  test('an uploaded file is an input of the code tool, whose outputs are downloaded and used again', async () => {
    const given = await upload('upload', { 'in.csv': 'a,b\n1,2\n' });
    expect(given).toEqual({
      message: 'success',
      storage_session_id: isId,
      session_id: given.storage_session_id,
      files: [{ fileId: isId, filename: 'in.csv' }],
    });
    const [file] = given.files;
    const seen = await js<
      Record<string, { content: string; artifact: { session_id: string; files: { id: string }[] } }>
    >(`
      const input = { id: '${file?.fileId}', storage_session_id: '${given.storage_session_id}', name: 'in.csv', kind: 'user', resource_id: 'ada' };
      const first = await run({ lang: 'py', code: "import sys; x = open('/mnt/data/in.csv').read(); print(len(x), sys.argv[1:]); open('é.txt', 'w').write(x * 2)", args: ['a b'] }, [input]);
      const output = first.artifact.files.find(({ name }) => name === 'é.txt');
      const again = { ...output, kind: 'user', resource_id: 'ada', name: 'again.txt' };
      const second = await run({ lang: 'bash', code: 'wc -c < again.txt; exit 3' }, [again]);
      const made = (await run({ lang: 'bash', code: 'echo x > made' })).artifact;
      return { first, second, made };
    `);
    expect(seen.first).toMatchObject({
      content: expect.stringContaining("stdout:\n8 ['a b']"),
      artifact: {
        session_id: isId,
        files: [
          { id: isId, name: 'é.txt', storage_session_id: seen.first?.artifact.session_id },
          { id: file?.fileId, name: 'in.csv', storage_session_id: given.storage_session_id, inherited: true },
        ],
      },
    });
    expect(seen.second?.content).toContain('stdout:\n16');
    const {
      session_id,
      files: [made],
    } = seen.made as unknown as { session_id: string; files: { id: string }[] };
    const input = { id: file?.fileId, storage_session_id: given.storage_session_id, name: 'in.csv', kind: 'user' };
    const foreign = { lang: 'bash', code: 'cat in.csv', files: [{ ...input, resource_id: 'bob' }] };
    const boxes = async () => (await collect(gateway.client.boxes.list())).length;
    const before = await boxes();
    expect((await gateway.post('/librechat/exec', foreign)).status).toBe(404);
    expect(await boxes()).toBe(before);
    // A session that was created without a user belongs to the first user whom LibreChat names for it.
    for (const [session, id] of [
      [session_id, made?.id],
      [given.storage_session_id, file?.fileId],
    ])
      for (const [user, status] of [
        ['ada', 200],
        ['bob', 404],
      ] as const) {
        const path = `/librechat/download/${session}/${id}?kind=user&id=${user}`;
        expect([user, (await gateway.call(path)).status]).toEqual([user, status]);
      }
    const [output] = seen.first?.artifact.files ?? [];
    const place = `${seen.first?.artifact.session_id}/${output?.id}`;
    const download = await gateway.call(`/librechat/download/${place}?kind=user&id=ada`);
    expect([download.headers.get('content-type'), download.headers.get('content-disposition')]).toEqual([
      'text/plain; charset=utf-8',
      "attachment; filename*=UTF-8''%C3%A9.txt",
    ]);
    expect(await download.text()).toBe('a,b\n1,2\n'.repeat(2));
  });

  if (!anyDriver.includes(driver)) return;

  test('each execution is a new process, in the warm session of its hint, in every language', async () => {
    const seen = await js<Record<string, unknown>>(`
      const stateful = createCodeExecutionTool({ baseUrl: process.env.URL, authHeaders: { 'X-API-Key': process.env.KEY },
        statefulSessions: true, runtimeSessionHint: 'chat 1', executionProfile: 'stateful' });
      const warm = async (lang, code) => {
        const { content, artifact } = await stateful.invoke({ type: 'tool_call', id: 'call', name: tool.name, args: { lang, code } });
        return [content, artifact.runtime_status];
      };
      return {
        first: await warm('py', "x = 1; open('kept', 'w').write('k')"),
        second: await warm('py', "print('x' in globals(), open('kept').read())"),
        js: await warm('js', 'console.log(6 * 7, require("fs").readFileSync("kept", "utf8"))'),
        ts: await warm('ts', 'const x: number = 42; console.log(x)'),
        late: (await run({ lang: 'bash', code: 'echo before; kill -9 $$' })).content,
        unknown: await failure(run({ lang: 'rs', code: '' })),
      };
    `);
    expect(seen).toEqual({
      first: [expect.stringContaining('stdout: Empty'), 'new'],
      second: [expect.stringContaining('stdout:\nFalse k'), 'reused'],
      js: [expect.stringContaining('stdout:\n42 k'), 'reused'],
      ts: [expect.stringContaining('stdout:\n42'), 'reused'],
      late: expect.stringContaining('stdout:\nbefore'),
      unknown: expect.stringContaining('The code execution request was rejected'),
    });
  });

  test('code calls tools of the client, several at once, in Python and Bash', async () => {
    const seen = await js<Record<string, unknown>>(`
      const batches = [];
      const double = { name: 'double-it', invoke: async ({ n }) => {
        batches.push(n);
        if (n < 0) throw new Error('too small');
        return n > 100 ? '{"big": true}' : 2 * n;
      } };
      const call = async (create, code, more = {}) => {
        const tool = create({ baseUrl: process.env.URL, authHeaders: { 'X-API-Key': process.env.KEY }, ...more });
        const toolMap = new Map([[double.name, double]]);
        const toolDefs = [{ name: double.name, description: 'Doubles', parameters: { type: 'object' } }];
        const { content, artifact } = await tool.invoke({ type: 'tool_call', id: 'call', name: tool.name, args: { code }, toolMap, toolDefs });
        return { content, files: artifact.files.map(({ name }) => name), status: artifact.runtime_status };
      };
      const python = (code, more) => call(createProgrammaticToolCallingTool, code, more);
      return {
        python: await python(\`
print("before")
a, b = await asyncio.gather(double_it(n=1), double_it(n=2))
c = await double_it(n=a + b)
print(a, b, c, (await double_it(n=101))["big"])
try:
    await double_it(n=-1)
except RuntimeError as error:
    print("caught", error)
open("out.txt", "w").write("x")
if c: return
print("never")\`, { runtimeSessionHint: 'tools', executionProfile: 'stateful' }),
        fault: await python('x = await double_it(n=3)\\n1 / 0'),
        syntax: await python('double_it(('),
        bash: await call(createBashProgrammaticToolCallingTool, \`
x=$(double_it '{"n": 21}'); echo "got $x"
{ double_it '{"n": 5}' > a; } & { double_it '{"n": 6}' > b; } & wait
cat a b; double_it '{"n": -1}' || echo "status $?"; exit 3\`),
        late: await failure(python('await double_it(n=1)\\nimport time\\ntime.sleep(60)', { runTimeoutMs: 1000 })),
        batches: batches.slice(0, 2),
      };
    `);
    expect(seen).toEqual({
      python: {
        content: expect.stringContaining('stdout:\nbefore\n2 4 12 True\ncaught too small\n'),
        files: ['out.txt'],
        status: 'new',
      },
      fault: { content: expect.stringMatching(/line 2, in __main__\n {4}1 \/ 0\n.*\nZeroDivisionError/), files: [] },
      syntax: { content: expect.stringContaining('SyntaxError'), files: [] },
      bash: {
        content: expect.stringMatching(/stdout:\ngot 42\n10\n12\nstatus 1\n\nstderr:\ntoo small/),
        files: ['a', 'b'],
      },
      late: expect.stringContaining('exceeded the time limit.\n\nStderr:\nThe code ran for more than 1 s'),
      batches: [1, 2],
    });
    expect((seen.python as { content: string }).content).not.toContain('never');
  });

  test('files of a session are listed in every form, described and deleted, by its tenant only', async () => {
    const { storage_session_id: session, files } = await upload('upload/batch', { 'a.csv': 'x', 'sub/b.png': 'yy' });
    expect(files.map(({ filename }) => filename)).toEqual(['a.csv', 'sub/b.png']);
    const id = files[1]?.fileId;
    const list = async (detail: string) =>
      (await gateway.get<unknown[]>(`/librechat/files/${session}?detail=${detail}&kind=user&id=ada`)).body;
    const name = `${session}/${id}.png`;
    const lastModified = expect.stringMatching(/^\d{4}-/);
    expect((await list('simple'))[1]).toBe(name);
    expect((await list('summary'))[1]).toEqual({ name, lastModified });
    expect((await list('full'))[1]).toMatchObject({
      name,
      size: 2,
      metadata: { 'original-filename': 'sub/b.png' },
      contentType: 'image/png',
    });
    expect((await list('normalized'))[1]).toMatchObject({ id, name: 'sub/b.png', storage_session_id: session });
    const object = `/librechat/sessions/${session}/objects/${id}`;
    expect((await gateway.get(object)).body).toMatchObject({ name, originalFilename: 'sub/b.png', size: 2 });
    const other = { headers: { 'x-api-key': await gateway.addTenant(), authorization: '' } };
    for (const path of [object, `/librechat/files/${session}`, `/librechat/download/${session}/${id}`])
      expect((await fetch(gateway.url + path, { headers: { 'x-api-key': other.headers['x-api-key'] } })).status).toBe(
        404,
      );
    expect((await gateway.call(`/librechat/files/${session}/${id}`, { method: 'DELETE' })).status).toBe(200);
    expect((await gateway.get(object)).status).toBe(404);
  });

  test('the code tool works with the variables that the page of the dialect sets', async () => {
    const behind = 'echo "$LIBRECHAT_CODE_BASEURL $LIBRECHAT_CODE_API_KEY"';
    const [LIBRECHAT_CODE_BASEURL = '', KEY = ''] = (await pasteDialectPage('librechat', gateway, { behind })).split(
      ' ',
    );
    const seen = await runJavaScript<string>(
      folder,
      "import { createCodeExecutionTool } from '@librechat/agents';",
      `
      const tool = createCodeExecutionTool({ authHeaders: { 'X-API-Key': process.env.KEY } });
      return tool.invoke({ lang: 'py', code: 'print(6 * 7)' });`,
      { LIBRECHAT_CODE_BASEURL, KEY },
    );
    expect(seen).toContain('stdout:\n42');
  });

  test("bad input gets an error in LibreChat's format", async () => {
    const call = async (method: string, path: string, body?: unknown, headers: Record<string, string> = {}) => {
      const sent = typeof body === 'string' ? body : JSON.stringify(body);
      const { response, text } = await rawRequest(gateway, `/librechat/${path}`, { method, headers }, sent);
      return [response.statusCode, JSON.parse(text)];
    };
    const none = 'a'.repeat(21);
    const ask = { lang: 'py', code: '1' };
    const input = { id: none, storage_session_id: none, name: 'a' };
    const cases: [unknown, number, string][] = [
      [await call('POST', 'exec', '{'), 400, 'invalid_request'],
      [await call('POST', 'exec', {}), 400, 'invalid_request'],
      [await call('POST', 'exec', { ...ask, lang: 'toString' }), 400, 'invalid_request'],
      [await call('POST', 'exec', { ...ask, code: 'é'.repeat(65_536) }), 400, 'invalid_request'],
      [await call('POST', 'exec', { ...ask, timeout: -1 }), 400, 'invalid_request'],
      [await call('POST', 'exec', ask, { 'x-codeapi-expected-profile': 'other' }), 400, 'invalid_request'],
      [await call('POST', 'exec', { ...ask, files: [input] }), 404, 'not_found'],
      [await call('POST', 'exec', { ...ask, files: [{ ...input, name: '../a' }] }), 400, 'invalid_request'],
      [await call('POST', 'upload', '{}'), 400, 'invalid_request'],
      [await call('GET', `files/${none}`), 404, 'not_found'],
      [await call('GET', 'files/none'), 404, 'not_found'],
      [await call('GET', `download/${none}/${none}`), 404, 'not_found'],
      [await call('GET', `files/${none}?kind=user&id=%00`), 400, 'invalid_request'],
      [await call('GET', `files/${none}?detail=x`), 400, 'invalid_request'],
      [await call('GET', 'exec'), 405, 'method_not_allowed'],
      [await call('POST', 'exec/programmatic', {}), 400, 'invalid_request'],
      [await call('POST', 'exec/programmatic', { continuation_token: 'x', tool_results: [] }), 404, 'not_found'],
      [await call('POST', 'exec', ask, { authorization: 'Bearer cbx_none' }), 401, 'unauthorized'],
    ];
    for (const [index, [actual, status, error]] of cases.entries())
      expect([index, actual]).toEqual([index, [status, { error, message: expect.any(String) }]]);
    expect((await fetch(`${gateway.url}/librechat/health`)).status).toBe(200);
  });
});

describe('the LibreChat dialect with tokens of users', () => {
  const pair = generateKeyPairSync('ed25519');
  let gateway: RunningGateway;
  beforeAll(async () => {
    const [driver = 'local'] = anyDriver;
    const pem = pair.publicKey.export({ type: 'spki', format: 'pem' }).toString().replaceAll('\n', '\\n');
    gateway = await startGateway(driver, { CODEBOX_DIALECTS: 'librechat' });
    await gateway.stop();
    await gateway.restart({ CODEBOX_LIBRECHAT_PUBLIC_KEY: pem, CODEBOX_LIBRECHAT_KEY: gateway.key });
  });
  afterAll(() => gateway?.dispose());

  const sign = (claims: JWTPayload, key: KeyObject = pair.privateKey) => {
    const now = Math.floor(Date.now() / 1000);
    return new SignJWT({ iss: 'librechat', aud: 'codeapi', iat: now, exp: now + 300, ...claims })
      .setProtectedHeader({ alg: 'EdDSA', kid: 'lc-codeapi-2026-05' })
      .sign(key);
  };
  const call = async (token: string, path: string, init: RequestInit = {}) => {
    const headers = { authorization: `Bearer ${token}`, 'content-type': 'application/json' };
    return await fetch(`${gateway.url}/librechat/${path}`, { headers, ...init });
  };
  const exec = async (token: string, body: object) => {
    const asked = { lang: 'bash', code: 'cat kept 2> /dev/null; echo x > kept', ...body };
    const response = await call(token, 'exec', { method: 'POST', body: JSON.stringify(asked) });
    return (await response.json()) as { session_id: string; stdout: string };
  };

  test('the user of a token has sessions that no other user reaches, and a key works as before', async () => {
    const [ada, bob, foreign] = await Promise.all([
      sign({ sub: 'ada' }),
      sign({ sub: 'bob' }),
      sign({ sub: 'ada', tenant_id: 'other' }),
    ]);
    const { session_id } = await exec(ada, {});
    expect(await exec(ada, { session_id })).toMatchObject({ session_id, stdout: 'x\n' });
    for (const other of [bob, foreign]) {
      expect((await exec(other, { session_id })).session_id).not.toBe(session_id);
      expect((await call(other, `files/${session_id}?kind=user&id=ada`)).status).toBe(404);
    }
    expect((await call(ada, `files/${session_id}?kind=user&id=bob`)).status).toBe(200);
    const hint = { runtime_session_hint: 'chat' };
    expect((await exec(ada, hint)).session_id).not.toBe((await exec(bob, hint)).session_id);
    expect((await call(gateway.key, `files/${session_id}`)).status).toBe(200);
  });

  test('files of agents are shared, and no kind in a request opens the session of another user', async () => {
    const [ada, bob] = await Promise.all([sign({ sub: 'ada' }), sign({ sub: 'bob' })]);
    const upload = async (kind: string): Promise<Upload> => {
      const form = new FormData();
      form.append('kind', kind);
      form.append('id', 'one');
      form.append('file', new Blob(['in\n']), 'in.txt');
      const headers = { authorization: `Bearer ${ada}` };
      return (await (await call(ada, 'upload', { method: 'POST', body: form, headers })).json()) as Upload;
    };
    const [shared, own] = [await upload('agent'), await upload('user')];
    const read = ({ storage_session_id, files: [file] }: Upload) => {
      const input = { id: file?.fileId, storage_session_id, name: 'in.txt', kind: 'agent', resource_id: 'one' };
      return exec(bob, { code: 'cat in.txt', files: [input] });
    };
    expect(await read(shared)).toMatchObject({ stdout: 'in\n' });
    expect(await read(own)).toMatchObject({ error: 'not_found' });
    const { storage_session_id: session_id } = shared;
    expect((await exec(bob, { session_id })).session_id).not.toBe(session_id);
    for (const [{ storage_session_id: session, files }, status] of [
      [own, 404],
      [shared, 200],
    ] as const) {
      const path = `${session}/${files[0]?.fileId}?kind=agent&id=one`;
      for (const response of [
        await call(bob, `files/${session}?kind=agent&id=one`),
        await call(bob, `download/${path}`),
        await call(bob, `files/${path}`, { method: 'DELETE' }),
      ])
        expect([response.url, response.status]).toEqual([response.url, status]);
    }
    const { files } = own;
    expect((await call(ada, `download/${own.storage_session_id}/${files[0]?.fileId}`)).status).toBe(200);
  });

  test('a token that is not valid is a 401', async () => {
    const now = Math.floor(Date.now() / 1000);
    const tokens = [
      await sign({ sub: 'ada' }, generateKeyPairSync('ed25519').privateKey),
      await sign({ sub: 'ada', aud: 'other' }),
      await sign({ sub: 'ada', iss: 'other' }),
      await sign({ sub: 'ada', iat: now - 600, exp: now - 300 }),
      await sign({ sub: 'ada', iat: now - 600, exp: now + 600 }),
      await sign({ sub: 'a b' }),
      await sign({ sub: 'ada', tenant_id: 'a/b' }),
      await sign({}),
      'a.b.c',
    ];
    for (const token of tokens) {
      const response = await call(token, 'files/none');
      expect([response.status, ((await response.json()) as { error: string }).error]).toEqual([401, 'unauthorized']);
    }
  });
});

test('the page of the dialect lists the tested version', async () => {
  const [, name, number] = /^(.+)@(.+)$/.exec(version) ?? [];
  expect(await readPage('docs/dialects/librechat.md')).toContain(`\`${name}\` ${number}`);
});
