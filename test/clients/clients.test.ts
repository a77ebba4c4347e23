import { execFile } from 'node:child_process';
import { cp, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { testFolder } from '../../scripts/project.ts';
import { anyDriver, drivers, type RunningGateway, startGateway } from '../api/harness.ts';
import { type Link, openLink } from '../api/link.ts';
import { adminKey } from '../api/operator.ts';
import { downloadWheels } from '../api/wheels.ts';
import { runJavaScript, runPython } from '../dialects/clients.ts';
import { project, readBlocks } from '../pages.ts';
import { pastePage } from '../paste.ts';
import { extended } from './extended.ts';
import { type InstalledClients, installClients } from './installed.ts';
import {
  beginning,
  deferred,
  interrupted,
  lost,
  others,
  type Program,
  refused,
  talk,
  tour,
  troubled,
} from './programs.ts';
import { openControl, openDeferring, openTroubled } from './servers.ts';

const run = promisify(execFile);
const languages = ['ts', 'py'] as const;
/** Kept between runs. */
const mypyCache = join(testFolder, 'mypy-cache');
const tsc = join(project, 'node_modules/typescript/bin/tsc');
const tscOptions = ['--noEmit', '--strict', '--target', 'esnext', '--module', 'nodenext', '--types', 'node'];
tscOptions.push('--typeRoots', join(project, 'node_modules/@types'));

/** Runs a type checker; throws its errors. */
const accepted = (program: string, argv: string[], options: { cwd?: string } = {}) =>
  run(program, argv, options).catch((error: { stdout: string }) => {
    throw new Error(error.stdout);
  });

let clients: InstalledClients;
let wheels: Awaited<ReturnType<typeof downloadWheels>>;
beforeAll(async () => {
  [clients, wheels] = await Promise.all([installClients(), downloadWheels('cowsay')]);
});
afterAll(async () => {
  await clients?.[Symbol.asyncDispose]();
  await wheels?.[Symbol.asyncDispose]();
});

const perform = <T>(language: (typeof languages)[number], program: Program, env: Record<string, string>): Promise<T> =>
  language === 'ts'
    ? runJavaScript<T>(clients.project, beginning.ts, program.ts, env)
    : runPython<T>(clients.python, beginning.py + program.py, env);

describe('the packages of the clients', () => {
  test('have the metadata that registries require, the version and the licence of CodeBox, and no sources', async () => {
    const { stdout } = await run('npm', ['pack', '--dry-run', '--json'], { cwd: clients.npmPackage });
    const [packed] = JSON.parse(stdout) as { version: string; files: { path: string }[] }[];
    const { version } = JSON.parse(await readFile(join(project, 'package.json'), 'utf8')) as { version: string };
    expect(packed?.version).toBe(version);
    const paths = packed?.files.map(({ path }) => path) ?? [];
    expect(paths).toEqual(expect.arrayContaining(['LICENSE', 'README.md', 'dist/public.d.ts', 'dist/public.js']));
    expect(paths.filter((path) => /(?<!\.d)\.ts$/.test(path) || path.includes('chats'))).toEqual([]);

    const distributions = (await readdir(clients.distributions)).filter((name) => name.startsWith('codebox_client'));
    expect(distributions.every((name) => name.startsWith(`codebox_client-${version}`))).toBe(true);
    const files = distributions.map((name) => join(clients.distributions, name));
    await run(clients.tools, ['-m', 'twine', 'check', '--strict', ...files]);
    for (const folder of ['python', 'typescript'])
      expect(await readFile(join(project, 'clients', folder, 'LICENSE'), 'utf8')).toBe(
        await readFile(join(project, 'LICENSE'), 'utf8'),
      );
  });

  test.each(['python', 'typescript'])('are those that the README of the %s package installs', async (name) => {
    // The registries do not have them, so the installers find that packages of these names are installed.
    const pip = `() { "${clients.tools}" -m pip --python "${clients.python}" "$@"; }`;
    const env = { 'BASH_FUNC_pip%%': pip, PIP_NO_INDEX: '1', npm_config_offline: 'true' };
    await pastePage(`clients/${name}/README.md`, { cwd: clients.project, env, replaced: {} });
  });

  test('type-check programs in strict TypeScript and strict mypy, and refuse wrong ones', async () => {
    const strict = `
import { CodeBox, CodeBoxError, type Execution } from 'codebox-client';
await using box = await new CodeBox({ url: '' }).boxes.create({ user: 'ada', limits: { memoryMb: 512 } });
const result: Execution = await box.run('1', { timeoutSeconds: 5 });
for await (const event of await box.stream('1')) if (event.type === 'stdout') event.text.trim();
for await (const entry of box.files.list()) entry.sizeBytes.toFixed();
const pointers = (error: unknown): string[] => error instanceof CodeBoxError ? error.errors.map(({ pointer }) => pointer) : [];
pointers(result.text);
// @ts-expect-error: there is no such setting
await box.run('1', { timeout: 5 });
`;
    await writeFile(join(clients.project, 'strict.ts'), strict);
    const readme = (await readBlocks('clients/typescript/README.md')).filter(({ language }) => language === 'ts');
    await writeFile(join(clients.project, 'readme.ts'), readme.map(({ text }) => text).join('\n'));
    await accepted(process.execPath, [tsc, ...tscOptions, 'strict.ts', 'readme.ts'], { cwd: clients.project });

    const program = `
from codebox_client import AsyncCodeBox, CodeBox, CodeBoxError, models
def first() -> str | None:
    with CodeBox().boxes.create(user="ada", limits={"memory_mb": 512}) as box:
        result: models.Execution = box.run("1", timeout_seconds=5)
        box.run("1", timeout=5)  # type: ignore[call-arg]
        return result.text
async def second() -> list[str]:
    async with AsyncCodeBox() as codebox, await codebox.boxes.create() as box:
        texts = [event.text async for event in box.stream("1") if event.type == "stdout"]
        return texts + [entry.path async for entry in box.files.list()]
def third(error: CodeBoxError) -> list[str]:
    return [fault.pointer for fault in error.errors]
`;
    await writeFile(join(clients.project, 'strict.py'), program);
    const mypy = ['-m', 'mypy', '--strict', '--python-executable', clients.python, '--cache-dir', mypyCache];
    await accepted(clients.tools, [...mypy, join(clients.project, 'strict.py')]);
  });

  test('the generated parts of the Python client match the output of its generator', async () => {
    const sources = join(project, 'clients/python');
    const folder = await mkdtemp(join(tmpdir(), 'codebox-generated-'));
    try {
      await cp(sources, folder, { recursive: true });
      await run(clients.tools, [join(sources, 'generate.py'), folder]);
      const generatedIn = async (place: string) =>
        (await readdir(place, { recursive: true })).filter((name) => /(models|_sync)\/\w+\.py$/.test(name)).sort();
      const generated = await generatedIn(folder);
      expect(generated).toContain('codebox_client/models/boxes.py');
      expect(generated).toEqual(await generatedIn(sources));
      for (const name of generated)
        expect([name, await readFile(join(folder, name), 'utf8')]).toEqual([
          name,
          await readFile(join(sources, name), 'utf8'),
        ]);
    } finally {
      await rm(folder, { recursive: true, force: true });
    }
  });

  test.each(languages)(
    '%s: deferred calls wait and are repeated where that is safe, and lists have all pages',
    async (language) => {
      await using server = await openDeferring();
      expect(await perform(language, deferred, { CODEBOX_URL: server.url, CODEBOX_KEY: 'cbx_any' })).toEqual({
        text: '42',
        names: ['first', 'second'],
        once: ['unavailable', 1],
        proxy: ['unavailable', 502],
      });
      const runs = server.asked.filter(({ call }) => call === 'POST /v1/run');
      expect(runs).toEqual([runs[0], { call: 'POST /v1/run', key: runs[0]?.key }]);
      expect(runs[0]?.key).toMatch(/^[\w-]{20,}$/);
      expect(server.asked.filter(({ call }) => call.endsWith('/interrupt')).length).toBe(1);
    },
  );

  test.each(languages)(
    '%s: late, lost and broken responses are errors with a code, or are asked for again where that is safe',
    async (language) => {
      await using server = await openTroubled();
      expect(await perform(language, troubled, { CODEBOX_URL: server.url, CODEBOX_KEY: 'cbx_any' })).toEqual({
        built: 'unavailable',
        late: 'timeout',
        slow: ['started', 'done'],
        cut: ['started', 'done'],
        none: 'timeout',
        broken: 'unavailable',
      });
      expect(server.asked).toMatchObject({
        'GET /v1/boxes/none/executions/exe-a/events': 1,
        'DELETE /v1/boxes/busy/files/old': 2,
        // The Python client always sends a key, with which a build can be repeated.
        'PUT /v1/templates/own': language === 'ts' ? 1 : 4,
      });
    },
  );

  test('the Python client names options as the API does at every depth, and leaves data as it is', async () => {
    const program = `
from codebox_client.options import to_json
volume = {"volume": "models", "read_only": True}
show(to_json({"volumes": [volume], "quotas": {"storage_mb": None}, "env": {"MY_KEY": "1"}}))`;
    expect(await runPython(clients.python, program, {})).toEqual({
      volumes: [{ volume: 'models', readOnly: true }],
      quotas: { storageMb: null },
      env: { MY_KEY: '1' },
    });
  });

  test('errors of the Python client can be copied and pickled', async () => {
    const program = `
import copy, pickle
from codebox_client import CodeBoxError
error = CodeBoxError("conflict", "Code runs.", reason="code_running")
show([[str(each), each.reason] for each in (error, copy.copy(error), pickle.loads(pickle.dumps(error)))])`;
    const seen = ['conflict: Code runs.', 'code_running'];
    expect(await runPython(clients.python, program, {})).toEqual([seen, seen, seen]);
  });
});

describe.each(drivers)('the installed clients on the %s driver', (driver) => {
  let gateway: RunningGateway;
  let link: Link;
  let control: Awaited<ReturnType<typeof openControl>>;
  let env: Record<string, string>;
  beforeAll(async () => {
    gateway = await startGateway(driver, { CODEBOX_WHEELS_DIR: wheels.folder, CODEBOX_ADMIN_KEY: adminKey });
    link = await openLink(gateway.url);
    control = await openControl({
      cut: link.cut,
      lose: link.loseNextResponse,
      async restart() {
        await gateway.stop();
        await gateway.restart();
      },
    });
    env = {
      CODEBOX_URL: gateway.url,
      CODEBOX_KEY: gateway.key,
      STRANGER_KEY: await gateway.addTenant(),
      CONTROL: control.url,
    };
  });
  afterAll(async () => {
    await control?.[Symbol.asyncDispose]();
    await link?.[Symbol.asyncDispose]();
    await gateway?.dispose();
  });

  test.each(languages)('%s: a box keeps variables, and returns plots, errors, files and packages', async (language) => {
    expect(await perform(language, tour, env)).toEqual({
      text: '42',
      doubled: '82',
      png: 'iVBOR',
      error: 'ZeroDivisionError',
      late: 'timeout',
      apart: 'NameError',
      command: [3, 'in'],
      sorted: 'a\nb\n',
      installed: ['cowsay'],
      file: 'text',
      bytes: 3_000_000,
      files: ['a folder/ü.txt'],
      boxes: [true],
      state: 'ready',
      ended: 'gone',
    });
  });

  test('the program of README.md prints the result of its box', async () => {
    const [program] = (await readBlocks('README.md')).filter(({ language }) => language === 'python');
    const before = 'import os\nurl, key = os.environ["CODEBOX_URL"], os.environ["CODEBOX_KEY"]\n';
    const { stdout } = await run(clients.python, ['-c', before + program?.text], { env: { ...process.env, ...env } });
    expect(stdout).toBe('42\n');
  });

  // The tests below depend on the gateway alone.
  if (!anyDriver.includes(driver)) return;

  test.each(languages)('%s: code can be given input and interrupted', async (language) => {
    expect(await perform(language, talk, env)).toEqual({
      printed: expect.stringContaining('Hello Ada\n'),
      end: ['interrupted', false],
      idle: ['conflict', 'not_waiting'],
    });
  });

  test.each(languages)('%s: links, terminals, webhooks and the API of operators are there', async (language) => {
    expect(await perform(language, extended, { ...env, ADMIN_KEY: adminKey })).toEqual({
      boxes: 2,
      linked: 'text',
      links: [
        [false, true],
        [true, false],
      ],
      size: true,
      listed: [true],
      code: 3,
      gone: 'not_found',
      secret: 'whsec_',
      changed: ['execution.ended'],
      isNew: true,
      exported: 'unreachable',
      exports: ['https://s3.invalid/none'],
      hooks: [[true, ['execution.ended']]],
      deliveries: 0,
      keys: ['revoked', 'revoked'],
      audit: ['tenant.create', 'tenant.delete'],
      refused: 'unauthorized',
    });
  });

  test('the Python client also has the other calls of a box and of a tenant', async () => {
    expect(await runPython(clients.python, beginning.py + others, env)).toEqual({
      found: [['a/one.txt', 2]],
      left: true,
      late: ['timeout', null],
      own: ['building', 'ready', 1, 77, 'ready', [1]],
      packed: ['three.txt', 'two.txt'],
      unpacked: ['three.txt', 'two.txt'],
      names: ['kept'],
      ran: 1,
      killed: 'killed',
      listed: [true],
      hasPip: true,
      idle: 100,
      kept: 'ready',
      memory: true,
      ticket: 'tkt_',
      state: 'hibernated',
      info: 'hibernated',
      again: 'ready',
      same: true,
      once: '42\n',
      templates: ['python'],
      tenant: true,
      usage: true,
      url: true,
    });
  });

  const whole = (count: number) => Array.from({ length: count }, (_, i) => i + 1);
  const printed = Array.from({ length: 20 }, (_, i) => `${i}\n`).join('');

  test.each(languages)('%s: a stream that is cut is resumed without loss or repetition', async (language) => {
    const before = link.count();
    const program = interrupted('seq % 6 === 3', 'cut');
    const { seqs, ...seen } = await perform<{ seqs: number[] }>(language, program, { ...env, CODEBOX_URL: link.url });
    expect(seen).toEqual({ printed, status: 'ok' });
    expect(seqs).toEqual(whole(seqs.length));
    expect(link.count() - before).toBeGreaterThan(2);
  });

  test.each(languages)('%s: a stream continues when its gateway is restarted', async (language) => {
    const { seqs, ...seen } = await perform<{ seqs: number[] }>(language, interrupted('seq === 3', 'restart'), env);
    expect(seen).toEqual({ printed, status: 'ok' });
    expect(seqs).toEqual(whole(seqs.length));
  });

  test.each(languages)('%s: a creation and a run whose responses are lost take effect once', async (language) => {
    const seen = await perform(language, lost, { ...env, CODEBOX_URL: link.url });
    expect(seen).toEqual({ boxes: 1, ran: 'once twice ', streamed: 'streamed 6\n', created: 'unavailable' });
  });

  test.each(languages)(
    '%s: a refused call has its code and pointers, and tenants see their own only',
    async (language) => {
      expect(await perform(language, refused, env)).toEqual({
        invalid: ['invalid_request', 400, ['/idleSeconds']],
        logged: 'string',
        key: 'unauthorized',
        stranger: 'not_found',
        theirs: 0,
        exists: 'precondition_failed',
        nowhere: 'unavailable',
      });
    },
  );

  test.each(['typescript', 'python'])(
    'the programs in the README of the %s package print what they say',
    async (name) => {
      const blocks = (await readBlocks(`clients/${name}/README.md`)).filter(({ language }) => language !== 'sh');
      expect(blocks.length).toBeGreaterThan(3);
      const program = blocks
        .map(({ text }) => text)
        .join('\n')
        .replaceAll('http://localhost:8080', gateway.url);
      const file = join(clients.project, name === 'python' ? 'readme.py' : 'readme.ts');
      await writeFile(file, program.replaceAll('cbx_…', gateway.key));
      const argv = name === 'python' ? [clients.python, '-u', file] : [process.execPath, file];
      const { stdout } = await run(argv[0] ?? '', argv.slice(1), {
        cwd: clients.project,
        env: { ...process.env, ...env },
        timeout: 60_000,
      });
      let rest = stdout;
      for (const [, line = ''] of program.matchAll(/(?:#|\/\/) → (.*)$/gm)) {
        expect(rest).toContain(line);
        rest = rest.slice(rest.indexOf(line) + line.length);
      }
    },
  );
});
