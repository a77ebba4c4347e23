import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { anyDriver, drivers, type RunningGateway, startGateway } from '../api/harness.ts';
import { rawRequest } from '../api/servers.ts';
import { readPage } from '../pages.ts';
import { npmClients, pasteDialectPage, printVersions, pythonClients, runJavaScript, runPython } from './clients.ts';

const versions = { npm: 'piston-client@1.0.2', python: 'piston_rspy==0.4.3' };
let [folder, python] = ['', ''];
beforeAll(async () => {
  folder = await npmClients(versions.npm);
  python = await pythonClients(versions.python);
  printVersions('Piston', versions);
}, 600_000);

describe.each(drivers)('the Piston dialect on the %s driver', (driver) => {
  let gateway: RunningGateway;
  beforeAll(async () => {
    gateway = await startGateway(driver, { CODEBOX_DIALECTS: 'piston' });
  });
  afterAll(() => gateway?.dispose());

  test('the JavaScript client lists the runtimes and runs programs with files, stdin and arguments', async () => {
    const url = gateway.url.replace('http://', `http://key:${gateway.key}@`);
    const shown = await runJavaScript<Record<string, unknown>>(
      folder,
      "import { piston } from 'piston-client';",
      `
      const client = piston({ server: process.env.URL });
      const runtimes = await client.runtimes();
      const main = 'import sys, helper\\nprint(helper.x, sys.argv[1:], input())\\nprint("e", file=sys.stderr)\\nsys.exit(3)';
      const files = [{ name: 'main.py', content: main }, { name: 'helper.py', content: 'eCA9IDQy', encoding: 'base64' }];
      return {
        runtimes,
        python: await client.execute('py', { files, stdin: 'in', args: ['a', 'b c'], version: '3.x', runTimeout: 20000 }),
        plain: await client.execute('javascript', 'console.log(process.argv.length)', { runTimeout: 20000 }),
        unknown: await client.execute('python', '1', { version: '2.7' }),
      };`,
      { URL: url },
    );
    const version = expect.stringMatching(/^\d+\.\d+\.\d+$/);
    const runtimes = shown.runtimes as { language: string }[];
    expect(runtimes.map(({ language }) => language)).toEqual(['python', 'javascript', 'typescript', 'bash']);
    expect(runtimes[0]).toEqual({ language: 'python', version, aliases: ['py', 'python3', 'ipython'] });
    expect(shown).toMatchObject({
      python: {
        language: 'python',
        version,
        run: {
          stdout: "42 ['a', 'b c'] in\n",
          stderr: 'e\n',
          output: expect.stringContaining('e\n'),
          code: 3,
          signal: null,
          status: 'RE',
        },
      },
      plain: {
        language: 'javascript',
        run: { stdout: '5\n', stderr: '', output: '5\n', code: 0, signal: null, status: null },
      },
      unknown: { message: 'python-2.7 runtime is unknown' },
    });
  });

  if (!anyDriver.includes(driver)) return;

  test('the Python client runs programs, and reports how they ended', async () => {
    const statements = `
import asyncio, os, sys
from piston_rspy import Client, Executor, File
client = Client.with_url_and_key(os.environ["URL"] + "/api/v2/piston", os.environ["KEY"])
async def run(language, content, **more):
    done = await client.execute(Executor(language=language, files=[File(content=content)], run_timeout=20000, **more))
    return [done.status, done.language, done.run.stdout, done.run.code, done.run.signal, done.compile is None]
async def main():
    runtimes = await client.fetch_runtimes()
    late = await client.execute(Executor(language="bash", files=[File(content="echo before; sleep 60")], run_timeout=1000))
    refused = await Client.with_url_and_key(os.environ["URL"] + "/api/v2", "cbx_none").execute(Executor(language="bash", files=[File(content="")]))
    return [
        "python" in [each.language for each in runtimes],
        await run("ts", "const x: number = 42; console.log(x)"),
        await run("sh", "cat; exit 4", stdin="text"),
        await run("python", "import os; os.kill(os.getpid(), 11)"),
        [late.run.stdout, late.run.code, late.run.signal],
        refused.status,
    ]
show(asyncio.run(main()))
# Threads of this client crash one in ten programs that end by themselves.
sys.stdout.flush()
os._exit(0)
`;
    const shown = await runPython(python, statements, { URL: gateway.url, KEY: gateway.key });
    expect(shown).toEqual([
      true,
      [200, 'typescript', '42\n', 0, null, true],
      [200, 'bash', 'text', 4, null, true],
      [200, 'python', '', null, 'SIGSEGV', true],
      ['before\n', null, 'SIGKILL'],
      401,
    ]);
  });

  test('the shell blocks of the page of the dialect print what the page says', async () => {
    await pasteDialectPage('piston', gateway);
  });

  test("bad input gets an error in Piston's format", async () => {
    const call = async (method: string, path: string, body?: unknown, headers: Record<string, string> = {}) => {
      const sent = typeof body === 'string' ? body : JSON.stringify(body);
      const { response, text } = await rawRequest(gateway, `/api/v2/${path}`, { method, headers }, sent);
      return [response.statusCode, JSON.parse(text)];
    };
    const ask = { language: 'python', version: '*', files: [{ content: '1' }] };
    const cases: [unknown, number, RegExp][] = [
      [await call('POST', 'execute', '{'), 400, /^The body is not valid JSON/],
      [await call('POST', 'execute', {}), 400, /^language .*; version .*; files /],
      [await call('POST', 'execute', { ...ask, files: [] }), 400, /^files /],
      [await call('POST', 'execute', { ...ask, files: [{ name: '../a', content: '' }] }), 400, /^files\[0\]\.name /],
      [
        await call('POST', 'execute', { ...ask, files: [{ content: '', encoding: 'x' }] }),
        400,
        /^files\[0\]\.encoding /,
      ],
      [await call('POST', 'execute', { ...ask, language: 'cobol' }), 400, /^cobol-\* runtime is unknown$/],
      [await call('POST', 'execute', { ...ask, run_timeout: -1 }), 400, /^run_timeout /],
      [await call('POST', 'execute', { ...ask, run_memory_limit: 2 ** 50 }), 400, /memoryMb/],
      [await call('GET', 'execute'), 405, /./],
      [await call('GET', 'packages'), 404, /./],
      [await call('GET', 'runtimes', undefined, { authorization: 'cbx_none' }), 401, /key of CodeBox/],
      [
        await call('GET', 'runtimes', undefined, { authorization: '', 'x-api-key': gateway.key }),
        401,
        /key of CodeBox/,
      ],
    ];
    for (const [index, [actual, status, message]] of cases.entries())
      expect([index, actual]).toEqual([index, [status, { message: expect.stringMatching(message) }]]);
  });
});

test('the page of the dialect lists the tested versions', async () => {
  const page = await readPage('docs/dialects/piston.md');
  for (const version of Object.values(versions))
    expect(page).toContain(version.replace(/(\S+?)(?:@|==)(.*)/, '`$1` $2'));
});
