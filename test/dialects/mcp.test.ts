import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { createClient } from '#contract';
import { anyDriver, collect, drivers, eventually, type RunningGateway, startGateway } from '../api/harness.ts';
import { adminKey, startSecond } from '../api/operator.ts';
import { downloadWheels } from '../api/wheels.ts';
import { readPage } from '../pages.ts';
import { clientsOf, installClients, versions } from './mcp-clients.ts';

let wheels: Awaited<ReturnType<typeof downloadWheels>>;
beforeAll(async () => {
  await installClients();
  wheels = await downloadWheels('cowsay');
}, 600_000);
afterAll(() => wheels?.[Symbol.asyncDispose]());

const plot = 'import matplotlib.pyplot as plt; plt.plot([1, 2]); plt.savefig("sub/plot ä.png"); plt.show()';
/** Runs until it is interrupted, and then writes a file. */
const endless = (file: string) =>
  `import time\nprint("begun", flush=True)\ntry:\n  while True: time.sleep(0.05)\nexcept KeyboardInterrupt: open("${file}", "w")`;
const text = (value: string) => ({ type: 'text', text: value });

describe.each(drivers)('the MCP dialect on the %s driver', (driver) => {
  let gateway: RunningGateway;
  const { js, py, inspect } = clientsOf(() => gateway);
  beforeAll(async () => {
    const settings = { CODEBOX_ADMIN_KEY: adminKey, CODEBOX_WHEELS_DIR: wheels.folder };
    gateway = await startGateway(driver, { CODEBOX_DIALECTS: 'mcp', ...settings });
  });
  afterAll(() => gateway?.dispose());

  test('code keeps its state, and returns figures, errors, files and progress', async () => {
    const shown = await js<Record<string, unknown>>(`
      const { client, transport, call, run } = await open();
      const seen = [];
      // The text comes in one write, so that there is one report of progress.
      const { content, structuredContent } = await call('run_code', { code: 'x = 20; print("printed\\\\n", end=""); x + 1' }, {
        onprogress: ({ message }) => seen.push(message),
      });
      await call('run_command', { command: 'mkdir sub' });
      const picture = await call('run_code', { code: ${JSON.stringify(plot)} });
      const link = picture.content.find(({ type }) => type === 'resource_link');
      const { contents: [{ blob }] } = await client.readResource({ uri: link.uri });
      const failed = await call('run_code', { code: '1 / 0' });
      const bash = await call('run_command', { command: 'cat; exit 3', stdin: 'in' });
      const bytes = Buffer.from(Array.from({ length: 256 }, (_, i) => i)).toString('base64');
      const written = await call('write_file', { path: '/mnt/data/sub/á.bin', base64: bytes });
      const binary = await call('read_file', { path: 'sub/á.bin' });
      await call('write_file', { path: 'note.txt', text: '' });
      const installed = await call('install_packages', { packages: ['cowsay'] });
      const listed = await call('list_files', { depth: 2 });
      const result = {
        version: client.getServerVersion().name, session: transport.sessionId, content, structuredContent, seen, failed, bash,
        installed: [installed.structuredContent.status, (await run('import cowsay')).status],
        types: picture.content.map(({ type }) => type), link,
        isPng: [blob, picture.content[1].data].map((data) => data.startsWith('iVBOR')),
        written: written.structuredContent,
        isSame: (await client.readResource({ uri: binary.content[1].uri })).contents[0].blob === bytes,
        note: (await call('read_file', { path: './note.txt' })).content,
        shown: (await call('read_file', { path: 'sub/plot ä.png' })).content[0].mimeType,
        listed: listed.structuredContent.entries.map(({ path }) => path),
        deleted: (await call('delete_file', { path: 'sub' })).content,
        gone: await failure(client.readResource({ uri: link.uri })),
        x: (await run('x')).text,
      };
      const ended = await open({ session: transport.sessionId });
      await transport.terminateSession();
      return { ...result, after: await failure(ended.run('x')) };
    `);
    expect(shown).toMatchObject({
      version: 'codebox',
      session: expect.any(String),
      content: [text('printed\n21')],
      structuredContent: { status: 'ok', stdout: 'printed\n', text: '21', error: null, truncated: false, files: [] },
      seen: ['printed\n'],
      types: ['text', 'image', 'resource_link'],
      link: { uri: 'file:///mnt/data/sub/plot%20%C3%A4.png', name: 'plot ä.png', mimeType: 'image/png' },
      isPng: [true, true],
      failed: { isError: true, structuredContent: { status: 'error', error: { name: 'ZeroDivisionError' } } },
      bash: { isError: true, structuredContent: { status: 'error', exitCode: 3, stdout: 'in' } },
      written: { path: 'sub/á.bin', sizeBytes: 256, created: true },
      installed: ['ok', 'ok'],
      isSame: true,
      note: [text('')],
      shown: 'image/png',
      listed: ['note.txt', 'sub', 'sub/plot ä.png', 'sub/á.bin'],
      deleted: [text('Deleted sub.')],
      gone: expect.stringContaining('no such file'),
      x: '20',
      after: expect.stringContaining('Session not found'),
    });
    expect(await collect(gateway.client.boxes.list())).toEqual([]);
  });

  if (!anyDriver.includes(driver)) return;

  test('a canceled call is interrupted, also through another gateway, which continues the session', async () => {
    await using second = await startSecond(gateway, driver, { CODEBOX_DIALECTS: 'mcp' });
    const shown = await js<{ session: string; rest: unknown }>(`
      const { client, transport, call, run } = await open();
      await run('x = 20');
      const controller = new AbortController();
      const canceled = await failure(call('run_code', { code: ${JSON.stringify(endless('here'))} }, {
        signal: controller.signal, onprogress: () => controller.abort('enough'),
      }));
      const late = await call('run_code', { code: 'while True: pass', timeoutSeconds: 0.5 });
      const begun = Promise.withResolvers();
      const running = call('run_code', { code: ${JSON.stringify(endless('there'))} }, { onprogress: begun.resolve });
      await begun.promise;
      const other = await open({ at: '${second.url}/mcp', session: transport.sessionId });
      await other.client.notification({ method: 'notifications/cancelled', params: { requestId: 'of another client' } });
      const stopped = (await running).structuredContent.status;
      const rest = [canceled, late.structuredContent.status, late.isError, stopped, await other.run('x')].map((one) => one.text ?? one);
      return { session: transport.sessionId, rest };
    `);
    expect(shown.rest).toEqual([expect.stringContaining('enough'), 'timeout', true, 'interrupted', '20']);
    const user = `mcp/${shown.session.split('.')[0]}`;
    const [box] = await collect(gateway.client.boxes.list({ user }));
    const names = (await collect(gateway.client.files.list(box?.id ?? ''))).map(({ name }) => name);
    expect(names).toEqual(['here', 'there']);
  });

  test('a call whose stream broke is answered by another gateway, and its code runs once', async () => {
    await using second = await startSecond(gateway, driver, { CODEBOX_DIALECTS: 'mcp' });
    const shown = await js<unknown>(`
      const answers = [];
      // Cuts the response to the call behind the event with its id, and continues at the other gateway.
      const cutting = async (input, init) => {
        if (init.method === 'GET' && !new Headers(init.headers).has('last-event-id')) return await fetch(input, init);
        if (init.method === 'GET') {
          const response = await fetch('${second.url}/mcp', init);
          answers.push(response.status);
          return response;
        }
        const response = await fetch(input, init);
        if (!String(init.body).includes('"run_code"')) return response;
        const reader = response.body.getReader();
        let text = '';
        while (!/^id: .+\\n.*\\n\\n/m.test(text)) text += new TextDecoder().decode((await reader.read()).value);
        await reader.cancel();
        return new Response(text, response);
      };
      const transport = new StreamableHTTPClientTransport(new URL(url), { fetch: cutting, requestInit: { headers: { Authorization: 'Bearer ' + key } } });
      const client = new Client({ name: 'test', version: '1' });
      await client.connect(transport);
      const call = async (code) => (await client.callTool({ name: 'run_code', arguments: { code } })).structuredContent;
      const first = await call('open("ran", "a").write("x"); import time; time.sleep(2); print("printed"); 6 * 7');
      return [first.text, first.stdout, (await call('open("ran").read()')).text, answers[0]];
    `);
    expect(shown).toEqual(['42', 'printed\n', "'x'", 200]);
  });

  test('the Python client works with both protocols', async () => {
    const shown = await py<unknown[]>(`
async def use(mode, **headers):
    async with connect(mode, **headers) as client:
        seen = []
        async def progress(*report): seen.append(report[2])
        await client.call_tool("run_code", {"code": "x = globals().get('x', 0) + 20; print('printed')"}, progress_callback=progress)
        result = await client.call_tool("run_code", {"code": "x + 1"})
        plot = await client.call_tool("run_code", {"code": ${JSON.stringify(plot.replace('sub/', ''))}})
        failed = await client.call_tool("run_code", {"code": "1 / 0"})
        read = await client.read_resource("file:///mnt/data/plot%20%C3%A4.png")
        return [len((await client.list_tools()).tools), result.structured_content["text"], seen,
            [block.type for block in plot.content], failed.is_error, read.contents[0].blob[:5]]
async def main():
    show([await use("auto"), await use("auto", X_CodeBox_User="ada"), await use("auto", X_CodeBox_User="ada")])
asyncio.run(main())
`);
    const expected = (x: string) => [7, x, ['printed\n'], ['text', 'image', 'resource_link'], true, 'iVBOR'];
    expect(shown).toEqual([expected('21'), expected('21'), expected('41')]);
  });

  test('large results are cut to the size that the Python client accepts, and a client that leaves cancels its call', async () => {
    const picture = 'PIL.Image.fromarray(numpy.random.default_rng(0).integers(0, 255, (1000, 1000, 3), numpy.uint8))';
    const shown = await py<unknown[]>(`
import anyio
async def main():
    async with connect(X_CodeBox_User="eve") as client:
        run = lambda code, **more: client.call_tool("run_code", {"code": code, "timeoutSeconds": 600}, **more)
        large = await run("import numpy, PIL.Image; print('é' * 5_000_000); display(${picture})")
        await client.call_tool("run_command", {"command": "head -c 3000000 /dev/zero > large.bin"})
        blob = (await client.read_resource("file:///mnt/data/large.bin")).contents[0].blob
        asked = await run("input()")
        with anyio.CancelScope() as scope:
            async def leave(*report): scope.cancel()
            await run(${JSON.stringify(endless('left'))}, progress_callback=leave)
        left = await run("import os; os.path.exists('left')")
        show([large.structured_content["truncated"], large.content[0].text[-400:], len(blob), asked.content[0].text,
            left.structured_content["text"]])
asyncio.run(main())
`);
    expect(shown).toEqual([
      true,
      expect.stringMatching(/é\n.*1 pictures were too large: save them to files to read them\.$/s),
      4_000_000,
      expect.stringContaining('input() is not supported'),
      'True',
    ]);
  });

  test('the inspector and the bridge for stdio work', async () => {
    const call = ['--method', 'tools/call', '--tool-name', 'run_code', '--tool-arg', 'code=6 * 7'];
    for (const over of ['http', 'stdio'] as const) {
      const { tools } = (await inspect(over, '--method', 'tools/list')) as { tools: { name: string }[] };
      expect(tools.map(({ name }) => name)).toContain('run_code');
      expect(await inspect(over, ...call)).toMatchObject({ structuredContent: { text: '42' } });
    }
    const { shown, box } = await js<{ shown: unknown[]; box: string }>(`
      const { client, call, run } = await open({ stdio: true });
      await run('x = 20');
      const controller = new AbortController();
      const canceled = failure(call('run_code', { code: ${JSON.stringify(endless('there'))} }, {
        signal: controller.signal, onprogress: () => controller.abort('enough'),
      }));
      const shown = [await canceled, (await run('x')).text, (await run('import os; os.path.exists("there")')).text];
      const listed = await fetch(new URL('/v1/boxes', url), { headers: { 'x-api-key': key } });
      const [{ id: box }] = (await listed.json()).items;
      await client.close();
      return { shown, box };
    `);
    // Its newest box was that of the bridge, which deletes it at the end.
    await eventually(async () => (await gateway.client.boxes.read(box)).state === 'deleted');
    expect(await js('return failure(open({ stdio: true }))', 'cbx_wrong')).toContain('A valid API key is needed');
    expect(shown).toEqual([expect.stringContaining('enough'), '20', 'True']);
  });

  test('keys, scopes, sessions, origins and messages are checked', async () => {
    const ping = { jsonrpc: '2.0', id: 1, method: 'ping' };
    const send = async (message: unknown, headers: Record<string, string> = {}, method = 'POST') => {
      const types = { 'content-type': 'application/json', accept: 'application/json, text/event-stream' };
      const body = typeof message === 'string' ? message : JSON.stringify(message);
      const init = { method, headers: { ...types, ...headers }, ...(method === 'POST' && { body }) };
      const response = await gateway.call('/mcp', init);
      return { status: response.status, headers: response.headers, body: await response.text() };
    };
    const error = (status: number, code: number) => ({ status, body: expect.stringContaining(`"code":${code}`) });
    const begun = await send({
      ...ping,
      method: 'initialize',
      params: { protocolVersion: '2025-11-25', capabilities: {}, clientInfo: { name: 'test', version: '1' } },
    });
    const session = begun.headers.get('mcp-session-id') ?? '';
    expect(session).not.toBe('');
    const tool = { ...ping, method: 'tools/call', params: { name: 'run_code', arguments: { code: '1' } } };

    expect(await send(ping)).toMatchObject({ status: 200 });
    expect(await send(ping, { origin: 'http://localhost:6274' })).toMatchObject({ status: 200 });
    expect(await send(ping, { origin: 'http://evil.example' })).toMatchObject(error(403, -32_000));
    const refused = await send(ping, { authorization: 'Bearer e2b_00' });
    expect(refused).toMatchObject(error(401, -32_000));
    expect(refused.headers.get('www-authenticate')).toMatch(/^Bearer /);
    expect(await send('{')).toMatchObject(error(400, -32_700));
    expect(await send([ping])).toMatchObject(error(400, -32_600));
    expect(await send({})).toMatchObject(error(400, -32_600));
    expect(await send(tool)).toMatchObject(error(400, -32_600));
    expect(await send({ ...ping, method: 'nope' })).toMatchObject(error(200, -32_601));
    expect(await send(tool, { 'x-codebox-user': 'á' })).toMatchObject(error(400, -32_600));
    expect(await send(tool, { 'mcp-session-id': 'nope' })).toMatchObject(error(404, -32_001));
    expect(await send('', {}, 'GET')).toMatchObject(error(405, -32_000));
    expect(await send('', {}, 'DELETE')).toMatchObject(error(400, -32_600));
    const resumed = { 'mcp-session-id': session, 'last-event-id': 'nope' };
    // There is no box yet.
    expect(await send('', resumed, 'GET')).toMatchObject(error(404, -32_001));
    expect((await send(tool, { 'mcp-session-id': session })).body).toContain('"status":"ok"');
    expect(await send('', resumed, 'GET')).toMatchObject(error(400, -32_600));
    const unknownRun = Buffer.from(JSON.stringify(['code', 'exe-nope', 1])).toString('base64url');
    expect(await send('', { ...resumed, 'last-event-id': unknownRun }, 'GET')).toMatchObject(error(404, -32_001));
    const other = { authorization: `Bearer ${await gateway.addTenant()}`, 'mcp-session-id': session };
    expect(await send(ping, other)).toMatchObject(error(404, -32_001));
    expect(await send('', other, 'DELETE')).toMatchObject(error(404, -32_001));

    const { admin } = createClient({ url: gateway.url, key: adminKey });
    const { tenant } = (await gateway.get<{ tenant: string }>('/v1/caller')).body;
    const { key } = await admin.keys.create({ tenant, name: 'files', scopes: ['files'] });
    const onlyFiles = { authorization: `Bearer ${key}`, 'x-codebox-user': 'kim', 'mcp-session-id': session };
    expect((await send({ ...ping, method: 'tools/list' }, onlyFiles)).body.match(/"name":"\w+"/g)).toEqual(
      ['list_files', 'read_file', 'write_file', 'delete_file'].map((name) => `"name":"${name}"`),
    );
    expect(await send(tool, onlyFiles)).toMatchObject(error(200, -32_602));
    expect(await send('', onlyFiles, 'DELETE')).toMatchObject(error(403, -32_000));
    const use = (name: string, args: object) => ({ ...tool, params: { name, arguments: args } });
    const waits = "import os, time\nwhile not os.path.exists('go'): time.sleep(0.05)";
    const waiting = send(use('run_code', { code: waits }), { 'x-codebox-user': 'kim' });
    await eventually(async () => {
      const [box] = await collect(gateway.client.boxes.list({ user: 'kim' }));
      return box && (await collect(gateway.client.executions.list(box.id))).some(({ status }) => status === 'running');
    });
    const cancelled = { jsonrpc: '2.0', method: 'notifications/cancelled', params: { requestId: 'of another client' } };
    expect(await send(cancelled, onlyFiles)).toMatchObject({ status: 202 });
    expect((await send(use('write_file', { path: 'go', text: '' }), onlyFiles)).body).toContain('"created":true');
    expect((await waiting).body).toContain('"status":"ok"');
    const first = await send(use('write_file', { path: 'go', text: '' }), { ...onlyFiles, 'x-codebox-user': 'lee' });
    expect(first.body).toContain('lacks the scope run');

    const unknown = { ...tool, params: { name: 'nope', arguments: {} } };
    expect(await send(unknown, { 'mcp-session-id': session })).toMatchObject(error(200, -32_602));
    const wrong = { ...tool, params: { name: 'read_file', arguments: { path: '../etc' } } };
    expect((await send(wrong, { 'mcp-session-id': session })).body).toContain('"isError":true');
  });

  test('without the dialect its paths do not exist', async () => {
    await using second = await startSecond(gateway, driver);
    for (const path of ['/mcp', '/.well-known/oauth-protected-resource']) {
      const headers = { authorization: `Bearer ${gateway.key}` };
      expect((await fetch(second.url + path, { method: 'POST', headers, body: '{}' })).status).toBe(404);
    }
  });
});

test('the page of the dialect lists the tested versions', async () => {
  const page = await readPage('docs/dialects/mcp.md');
  for (const version of Object.values(versions)) expect(page).toContain(version);
});
