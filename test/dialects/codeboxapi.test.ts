import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { createClient } from '#contract';
import { anyDriver, drivers, eventually, type RunningGateway, startGateway } from '../api/harness.ts';
import { rawRequest } from '../api/servers.ts';
import { downloadWheels } from '../api/wheels.ts';
import { readPage } from '../pages.ts';
import { pasteDialectPage, printVersions, pythonClients, runPython } from './clients.ts';

const versions = { new: 'codeboxapi==0.2.6', old: 'codeboxapi==0.1.19', agent: 'codeinterpreterapi==0.1.20' };

/** Defines `show`, which collects values, and the errors that calls throw; they are printed at the end. */
const prelude = `
import asyncio, atexit, base64, json, os
from codeboxapi import CodeBox
shown = []
def show(value):
    if callable(value):
        try:
            value = value()
        except Exception as error:
            value = f"{type(error).__name__}: {error}"
    shown.append(value)
atexit.register(lambda: print(json.dumps(shown, default=str)))
`;
const isPng = `lambda text: base64.b64decode(text).startswith(b"\\x89PNG")`;
const plot = 'import matplotlib.pyplot as plt; plt.plot([1, 2]); plt.show()';
const count = "n = globals().get('n', 0) + 1; print(n)";

let [newer, older] = ['', ''];
let wheels: Awaited<ReturnType<typeof downloadWheels>>;
beforeAll(async () => {
  newer = await pythonClients(versions.new);
  older = await pythonClients(versions.agent, versions.old);
  wheels = await downloadWheels('cowsay');
  printVersions('CodeBoxAPI', versions);
}, 600_000);
afterAll(() => wheels?.[Symbol.asyncDispose]());

describe.each(drivers)('the CodeBoxAPI dialect on the %s driver', (driver) => {
  let gateway: RunningGateway;
  beforeAll(async () => {
    gateway = await startGateway(driver, { CODEBOX_DIALECTS: 'codeboxapi', CODEBOX_WHEELS_DIR: wheels.folder });
  });
  afterAll(() => gateway?.dispose());

  const run = (python: string, version: string, code: string, key: string) => {
    const place = { CODEBOX_API_KEY: key, CODEBOX_BASE_URL: `${gateway.url}/api/${version}` };
    return runPython<unknown[]>(python, prelude + code, { ...place, IGNORE_DEPRECATION_WARNINGS: 'true' });
  };
  const v2 = (code: string, key = gateway.key) => run(newer, 'v2', code, key);
  const v1 = (code: string) => run(older, 'v1', code, gateway.key);

  test('codeboxapi 0.2 keeps state, streams, plots, reports errors, and moves files both ways', async () => {
    const shown = await v2(`
box = CodeBox(session_id="any name @ all")
show(box.healthcheck())
box.exec("x = 20")
show(lambda: [(chunk.type, chunk.content) for chunk in box.exec("print(x); x + 1").chunks])
show(lambda: [str(box.run(${JSON.stringify(count)})) for _ in range(5)])
waiting = box.stream_exec("print('waits', flush=True)\\nimport os, time\\nwhile not os.path.exists('go'): time.sleep(0.05)\\nprint('goes')")
show(next(waiting).content)
box.upload("go", b"")
show([chunk.content for chunk in waiting])
show(list(map(${isPng}, box.exec(${JSON.stringify(plot)}).images)))
show(box.exec("1 / 0").errors)
box.upload("sub/á.bin", bytes(range(256)))
show(box.exec("print(len(open('sub/á.bin', 'rb').read()))").text)
show(box.download("sub/á.bin").get_content() == bytes(range(256)))
show(sorted(file.path for file in box.list_files()))
show(lambda: b"".join(box.stream_download("none")))
show(lambda: box.exec("import time; time.sleep(60)", timeout=2))
show(box.exec("print(x)").text)
show(box.exec("import os; os.kill(os.getpid(), 9)").errors)
show(box.exec("print('x' in globals())").text)
`);
    expect(shown).toEqual([
      'healthy',
      [
        ['txt', '20\n'],
        ['txt', '21'],
      ],
      ['1\n', '2\n', '3\n', '4\n', '5\n'],
      'waits\n',
      ['goes\n'],
      [true],
      ['ZeroDivisionError: division by zero'],
      '256\n',
      true,
      ['go', 'sub/á.bin'],
      expect.stringMatching(/^HTTPStatusError: .*404/),
      'ReadTimeout: timed out',
      '20\n',
      [expect.stringMatching(/^RuntimeError: /)],
      'False\n',
    ]);
  });

  test('codeboxapi 0.1 starts, runs, installs, restarts and stops, and moves files both ways', async () => {
    const shown = await v1(`
box = CodeBox()
show([box.start(), box.status()])
box.run("x = 20")
outputs = [box.run(code) for code in ("print(x); x + 1", ${JSON.stringify(plot)}, "import cowsay")]
show([outputs[0].content, (${isPng})(outputs[1].content), outputs[2].content])
show([output.type for output in outputs])
show([box.run(${JSON.stringify(count)}).content for _ in range(5)])
show([box.upload("a.bin", bytes(range(256))), box.list_files()])
file = box.download("a.bin")
show([file.name, file.content == bytes(range(256))])
show(lambda: box.download("none"))
show([box.install("cowsay"), box.run("import cowsay")])
show([box.restart(), box.run("x")])
session = box.session_id
show(box.stop())
show(lambda: CodeBox.from_id(session).status())
show(lambda: CodeBox.from_id(7).status())
async def concurrent():
    async with CodeBox() as box:
        show(sorted(output.content for output in await asyncio.gather(*[box.arun(${JSON.stringify(count)}) for _ in range(5)])))
asyncio.run(concurrent())
`);
    expect(shown).toEqual([
      ['started', 'running'],
      ['20\n21\n', true, "ModuleNotFoundError: No module named 'cowsay'"],
      ['text', 'image/png', 'error'],
      ['1\n', '2\n', '3\n', '4\n', '5\n'],
      ['a.bin uploaded successfully', ['a.bin']],
      ['a.bin', true],
      expect.stringMatching(/^CodeBoxError: 404: \{'detail': /),
      ['cowsay installed successfully', 'code run successfully (no output)'],
      ['restarted', "NameError: name 'x' is not defined"],
      'stopped',
      'stopped',
      expect.stringMatching(/^CodeBoxError: 404: /),
      ['1\n', '2\n', '3\n', '4\n', '5\n'],
    ]);
  });

  if (!anyDriver.includes(driver)) return;

  test('codeinterpreterapi 0.1 plots, and installs missing packages', async () => {
    const shown = await v1(`
from codeinterpreterapi import CodeInterpreterSession
from langchain_community.chat_models.fake import FakeListChatModel
def act(action, text):
    return json.dumps({"action": action, "action_input": text})
answers = [act("python", ${JSON.stringify(plot)}), act("python", "import cowsay"), act("python", "import cowsay"), '{"modifications": []}']
session = CodeInterpreterSession(llm=FakeListChatModel(responses=[*answers, act("Final Answer", "done")]))
session.start()
response = session.generate_response("Plot.")
show([response.content, [file.name for file in response.files], [output for _, output in response.code_log[1:]]])
session.stop()
`);
    expect(shown.at(-1)).toEqual([
      'done',
      [expect.stringMatching(/^image-.*\.png$/)],
      ["ModuleNotFoundError: No module named 'cowsay'", 'code run successfully (no output)'],
    ]);
  });

  test('the helpers of codeboxapi 0.2 work, and its sessions are those of one tenant', async () => {
    const shown = await v2(`
box = CodeBox(session_id="shared")
show(box.show_variables())
box.exec("mine = 5")
show(box.show_variables())
box.install("cowsay")
show([box.exec("import cowsay").errors, "cowsay" in box.list_packages()])
box.restart()
show(box.show_variables())
box.upload("mine", "data")
box.exec("import os; os.mkdir('folder')")
show([box.exec("print(os.getcwd())", cwd="folder").text, box.exec("print(os.getcwd())").text])
show(box.exec("input()").errors[0])
from concurrent.futures import ThreadPoolExecutor
with ThreadPoolExecutor(8) as pool:
    inside = [pool.submit(box.exec, "print(os.getcwd())", cwd="folder" if number % 2 else None) for number in range(12)]
show([one.result().text for one in inside] == ["/mnt/data\\n", "/mnt/data/folder\\n"] * 6)
`);
    expect(shown).toEqual([
      {},
      { mine: '5' },
      [[], true],
      {},
      ['/mnt/data/folder\n', '/mnt/data\n'],
      'EOFError: nobody can answer input() here',
      true,
    ]);
    const other = await gateway.addTenant();
    expect(await v2('show(CodeBox(session_id="shared").list_files())', other)).toEqual([[]]);
    const { boxes } = createClient({ url: gateway.url, key: other });
    for await (const { id, user } of boxes.list()) {
      expect(user).toBe('codeboxapi/shared');
      await boxes.delete(id);
    }
  });

  test('tags and emoji in the output arrive as they were printed', async () => {
    const text = '</txt><img>x</img><err>é😀</err></t';
    const shown = await v2(`
text = ${JSON.stringify(text)}
box = CodeBox(session_id="any name @ all")
line = text + "." * 964 + "\\n"
show(box.exec("for _ in range(50_000): print(" + repr(line) + ", end='')").text == line * 50_000)
show("".join(box.exec("import sys; sys.stderr.write(" + repr(text) + ")").errors))
`);
    expect(shown).toEqual([true, text]);
  });

  test('a repeated run of codeboxapi 0.1 joins the first one, whose connection broke', async () => {
    const started = await (await gateway.call('/api/v1/codebox/start')).text();
    const [, id] = /^\{"id": (\d+)\}$/.exec(started) ?? [];
    const run = (code: string, signal: AbortSignal | null = null) =>
      gateway.call(`/api/v1/codebox/${id}/run`, { method: 'POST', body: JSON.stringify({ code }), signal });
    const output = async (code: string) => await (await run(code)).json();
    const files = async () => await (await gateway.call(`/api/v1/codebox/${id}/files`)).text();
    /** Runs code that writes a file, and breaks the connection when it has. */
    const breakOff = async (code: string, file: string) => {
      const broken = new AbortController();
      const first = run(code, broken.signal).catch(() => 'broken');
      await eventually(async () => (await files()).includes(`"${file}"`));
      broken.abort();
      expect(await first).toBe('broken');
    };
    const going =
      "open('n', 'a').write('x'); import os, time\nwhile not os.path.exists('go'): time.sleep(0.05)\nprint(open('n').read())";
    await breakOff(going, 'n');
    const joined = output(going);
    const form = new FormData();
    form.append('file', new Blob(['']), 'go');
    expect((await gateway.call(`/api/v1/codebox/${id}/upload`, { method: 'POST', body: form })).status).toBe(200);
    expect(await joined).toEqual({ type: 'text', content: 'x\n' });
    // It is run again for a caller who has the output of the first run.
    expect(await output(going)).toEqual({ type: 'text', content: 'xx\n' });
    const brief = "open('m', 'a').write('x'); import time; time.sleep(1); print(open('m').read())";
    await breakOff(brief, 'm');
    expect(await output("print('after it')")).toEqual({ type: 'text', content: 'after it\n' });
    expect(await output(brief)).toEqual({ type: 'text', content: 'x\n' });
    // After a restart it has to run in the new kernel.
    const cut = "open('r', 'a').write('x'); import time; time.sleep(1); print(open('r').read())";
    await breakOff(cut, 'r');
    expect((await gateway.call(`/api/v1/codebox/${id}/restart`, { method: 'POST' })).status).toBe(200);
    expect(await output(cut)).toEqual({ type: 'text', content: 'xx\n' });
  });

  test('the shell blocks of the page of the dialect print what the page says', async () => {
    await pasteDialectPage('codeboxapi', gateway, { python: newer });
  });

  test('bad input and missing rights get errors in the format of FastAPI', async () => {
    const call = async (method: string, path: string, body?: unknown, headers: Record<string, string> = {}) => {
      const sent = typeof body === 'string' ? body : JSON.stringify(body);
      const response = await rawRequest(gateway, path, { method, headers }, sent);
      return [response.response.statusCode, JSON.parse(response.text)];
    };
    const exec = '/api/v2/codebox/any%20name%20@%20all/exec';
    const at = (...loc: string[]) => ({ detail: [{ loc, msg: expect.any(String), type: 'value_error' }] });
    const text = { detail: expect.any(String) };
    const cases: [unknown, number, unknown][] = [
      [await call('POST', exec, '{'), 422, at('body')],
      [await call('POST', exec, {}), 422, at('body', 'code')],
      [await call('POST', exec, { code: '1', kernel: 'cobol' }), 422, at('body', 'kernel')],
      [await call('POST', exec, { code: '1', timeout: -1 }), 422, at('body', 'timeout')],
      [await call('POST', exec, { code: 'a\0', kernel: 'bash' }), 422, at('body', 'code')],
      [await call('POST', exec, { code: '1', cwd: 'none', kernel: 'bash' }), 422, at('body', 'cwd')],
      [await call('POST', exec, { code: '1', cwd: 'none' }), 422, at('body', 'cwd')],
      [await call('POST', `/api/v2/codebox/${'s'.repeat(300)}/exec`, { code: '1' }), 422, at('path', 'session')],
      [await call('POST', exec.replace('exec', 'files/upload'), '{}'), 422, expect.anything()],
      [await call('GET', exec.replace('exec', 'files/download/%zz')), 422, at('path', 'path')],
      [await call('POST', exec, { code: '1' }, { 'factory-id': 'none' }), 404, text],
      [await call('GET', '/api/v1/codebox/none/'), 404, text],
      [await call('GET', `/api/v1/codebox/${2n ** 128n}/`), 404, text],
      [await call('POST', '/api/v1/codebox/7/install', { package_name: '-r' }), 422, at('body', 'package_name')],
      [await call('GET', '/api/v1/codebox/7/download'), 422, at('body', 'file_name')],
      [await call('GET', exec), 405, text],
      [await call('GET', '/api/v2/codebox/none'), 404, text],
      [await call('POST', '/api/v2/factory/', {}), 405, text],
    ];
    for (const [index, [actual, status, body]] of cases.entries())
      expect([index, actual]).toEqual([index, [status, body]]);
    const [, { templates }] = await call('GET', '/api/v2/factory/');
    expect(templates).toMatchObject([{ id: 'python', network_enabled: false }]);
    const late = await gateway.call(exec, { method: 'POST', body: '{"code": "while True: pass", "timeout": 0.5}' });
    expect(await late.text()).toMatch(/<err>TimeoutError: [^<]+<\/err>$/);
    for (const headers of [{ 'x-api-key': gateway.key }, { authorization: 'Bearer e2b_00' }, {}]) {
      const init = { method: 'POST', body: '{"code": "1"}', headers };
      const refused = await fetch(gateway.url + exec, init as RequestInit);
      expect([refused.status, await refused.json()]).toEqual([401, text]);
    }
  });
});

test('the page of the dialect lists the tested versions', async () => {
  const page = await readPage('docs/dialects/codeboxapi.md');
  for (const version of Object.values(versions)) expect(page).toContain(version);
});
