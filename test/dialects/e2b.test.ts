import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { anyDriver, mainDriver, type RunningGateway, startGateway } from '../api/harness.ts';
import { pasteDialectPage } from './clients.ts';
import { clientsOf, installClients } from './e2b-clients.ts';

let python = '';
beforeAll(async () => {
  python = await installClients();
});

describe.each(anyDriver)('the E2B dialect on the %s driver', (driver) => {
  let gateway: RunningGateway;
  let id: string;
  const { js, py, control } = clientsOf(() => ({ gateway, sandbox: id }));
  beforeAll(async () => {
    gateway = await startGateway(driver, { CODEBOX_DIALECTS: 'e2b' });
    const { body } = await control('POST', '/v2/sandboxes', { templateID: 'base', envVars: { FOO: 'bar' } });
    id = body.sandboxID as string;
  });
  afterAll(() => gateway?.dispose());

  test('code runs with its state, and returns results, output, errors and figures with their data', async () => {
    const seen = await js<Record<string, unknown>>(`
      const lines = [];
      await sandbox.runCode('x = 41');
      const printed = await sandbox.runCode('import sys; print("hi"); print("e", file=sys.stderr); x + 1',
        { onStdout: ({ line }) => lines.push(line) });
      const failed = await sandbox.runCode('1/0');
      const text = await sandbox.runCode('"quoted"');
      const plot = await sandbox.runCode(\`import matplotlib.pyplot as plt
plt.plot([1, 2], [3, 4], label='l'); plt.xlabel('T (s)'); plt.title('t'); plt.show()
plt.bar(['a', 'b'], [3, 3]); plt.show()\`);
      const table = await sandbox.runCode(\`import pandas as pd
pd.DataFrame({'n': [1, None], 't': pd.to_datetime(['2024-01-01', None]), 's': ['a', 'é']})\`);
      const asked = await sandbox.runCode('input()');
      return { lines, text: printed.text, logs: printed.logs, count: printed.executionCount, failed: failed.error,
        quoted: text.text, png: plot.results[0].png.slice(0, 5), charts: plot.results.map(({ chart }) => chart),
        table: table.results.map(({ data, text, html }) => [data, text.length > 0, html.includes('<table')]), asked: asked.error.name };
    `);
    expect(seen).toMatchObject({
      lines: ['hi\n'],
      text: '42',
      logs: { stdout: ['hi\n'], stderr: ['e\n'] },
      count: 2,
      failed: { name: 'ZeroDivisionError', value: 'division by zero', traceback: expect.stringContaining('line 1\n') },
      quoted: 'quoted',
      png: 'iVBOR',
      charts: [
        {
          type: 'line',
          title: 't',
          x_unit: 's',
          elements: [
            {
              label: 'l',
              points: [
                [1, 3],
                [2, 4],
              ],
            },
          ],
        },
        {
          type: 'bar',
          elements: [
            { label: 'a', value: 3 },
            { label: 'b', value: 3 },
          ],
        },
      ],
      table: [[{ n: [1, null], t: ['2024-01-01T00:00:00.000', null], s: ['a', 'é'] }, true, true]],
      asked: 'StdinNotImplementedError',
    });
    expect((seen.failed as { traceback: string }).traceback).not.toContain('\u001b');
  });

  test('contexts keep their variables apart, and code ends when its client has waited long enough', async () => {
    const seen = await js(`
      const context = await sandbox.createCodeContext({ cwd: '/home/user' });
      const before = (await sandbox.listCodeContexts()).some((one) => one.id === context.id);
      await sandbox.runCode('mine = 5', { context });
      const value = (await sandbox.runCode('mine', { context })).text;
      const elsewhere = (await sandbox.runCode('mine')).error.name;
      const late = await failure(sandbox.runCode('import time; time.sleep(60)', { context, timeoutMs: 700 }));
      const kept = (await sandbox.runCode('mine', { context })).text;
      await sandbox.restartCodeContext(context);
      const restarted = (await sandbox.runCode('mine', { context })).error.name;
      await sandbox.removeCodeContext(context);
      const gone = await failure(sandbox.runCode('1', { context }));
      const outside = await sandbox.createCodeContext({ cwd: '/tmp' });
      const there = (await sandbox.runCode('import os; os.getcwd()', { context: outside })).text;
      await sandbox.removeCodeContext(outside);
      return [context.language, context.cwd, before, value, elsewhere, late, kept, restarted, gone, outside.cwd, there];
    `);
    expect(seen).toEqual([
      'python',
      '/home/user',
      true,
      '5',
      'NameError',
      'TimeoutError',
      '5',
      'NameError',
      'NotFoundError',
      '/tmp',
      '/tmp',
    ]);
  });

  test('code runs in every language, and a new sandbox has the contexts that every sandbox begins with', async () => {
    const seen = await js<Record<string, unknown>>(`
      const mine = await Sandbox.create({ timeoutMs: 120_000 });
      const listed = async () => (await mine.listCodeContexts()).map(({ id, language, cwd }) => [id === language, language, cwd]);
      const before = await listed();
      const [python, javascript] = await mine.listCodeContexts();
      await mine.restartCodeContext(python);
      const run = async (code, language) => { const { results, logs } = await mine.runCode(code, { language }); return results[0]?.text ?? logs.stdout.join(''); };
      const seen = {
        before, js: await run('const z = 40; z + 2', 'js'), ts: await run('const add = (x: number): number => x + 1; add(41)', 'ts'), bash: await run('echo $((6 * 7))', 'bash'),
        kept: (await mine.runCode('z', { context: javascript })).text, fresh: (await mine.runCode('1 + 1', { context: python })).text,
        after: (await listed()).map(([isName, language]) => [isName, language]).sort(), own: (await mine.createCodeContext({ language: 'javascript' })).language,
      };
      await mine.restartCodeContext(javascript);
      const restarted = (await mine.runCode('typeof z', { language: 'js' })).text;
      await mine.kill();
      return { ...seen, restarted };
    `);
    expect(seen).toEqual({
      before: [
        [true, 'python', '/home/user'],
        [true, 'javascript', '/home/user'],
      ],
      ...{ js: '42', ts: '42', bash: '42\n', kept: '40', fresh: '2' },
      after: ['bash', 'javascript', 'python', 'typescript'].map((language) => [false, language]),
      ...{ own: 'javascript', restarted: 'undefined' },
    });
  });

  test('commands run in the foreground and in the background, with input, signals and time limits', async () => {
    const seen = await js<Record<string, unknown>>(`
      const { commands } = sandbox;
      const done = await commands.run('echo $FOO $BAR; echo e >&2; pwd', { envs: { BAR: "it's" }, cwd: '/tmp' });
      const failed = await commands.run('exit 3').catch(({ exitCode }) => exitCode);
      const reader = await commands.run('while read l; do echo got $l; done', { background: true, stdin: true });
      const listed = (await commands.list()).find(({ pid }) => pid === reader.pid);
      await commands.sendStdin(reader.pid, 'one\\n');
      await commands.closeStdin(reader.pid);
      const read = await reader.wait();
      const sleeper = await commands.run('sleep 60', { background: true });
      const killed = [await sleeper.kill(), await sleeper.wait().catch(({ exitCode }) => exitCode), await sleeper.kill()];
      const first = await commands.run('read l; echo $l', { background: true, stdin: true });
      await first.disconnect();
      const again = await commands.connect(first.pid);
      await again.sendStdin('late\\n');
      const names = ['E2B_SANDBOX', 'E2B_SANDBOX_ID', 'E2B_TEMPLATE_ID'];
      const told = [(await commands.run(names.map((name) => 'echo $' + name).join(';'))).stdout.trim().split('\\n'),
        (await sandbox.runCode('import os; print(*(os.environ[name] for name in ' + JSON.stringify(names) + '))')).logs.stdout[0].trim().split(' ')];
      return { done, told, failed, args: listed.args, read: read.stdout, killed, again: (await again.wait()).stdout,
        unknown: await failure(commands.connect(999999)), late: await failure(commands.run('sleep 60', { timeoutMs: 500 })) };
    `);
    const told = ['true', id, 'base'];
    expect(seen).toMatchObject({
      done: { exitCode: 0, stdout: "bar it's\n/tmp\n", stderr: 'e\n' },
      told: [told, told],
      failed: 3,
      args: ['-l', '-c', 'while read l; do echo got $l; done'],
      read: 'got one\n',
      killed: [true, -1, false],
      again: 'late\n',
      unknown: 'NotFoundError',
      late: 'TimeoutError',
    });
  });

  test('a terminal takes input, is resized, followed again and ended, and ends at its deadline', async () => {
    const seen = await js<Record<string, unknown>>(`
      const { pty, commands } = sandbox;
      const [bytes, text] = [(line) => new TextEncoder().encode(line), new TextDecoder()];
      let output = '';
      const onData = (data) => { output += text.decode(data); };
      const reported = async (wanted) => {
        const until = Date.now() + 20_000;
        while (!output.includes(wanted) && Date.now() < until) await new Promise((done) => setTimeout(done, 20));
        return output.includes(wanted);
      };
      const size = { cols: 100, rows: 30 };
      const terminal = await pty.create({ ...size, onData, envs: { MINE: 'own' }, cwd: '/tmp', timeoutMs: 0 });
      const { pid } = terminal;
      await pty.sendInput(pid, bytes('echo "$MINE-$PWD-$(stty size)"\\n'));
      const first = await reported('own-/tmp-30 100');
      await pty.resize(pid, { cols: 60, rows: 20 });
      await pty.sendInput(pid, bytes('stty size\\n'));
      const resized = await reported('20 60');
      const listed = (await commands.list()).find((one) => one.pid === pid)?.args;
      await terminal.disconnect();
      output = '';
      const again = await pty.connect(pid, { onData });
      await pty.sendInput(pid, bytes('echo again-$((1+1)); exit 3\\n'));
      const exit = await again.wait().catch(({ exitCode }) => exitCode);
      const isOld = output.includes('own-');
      const unknown = [await pty.kill(pid), await failure(pty.sendInput(pid, bytes('x')))];
      const other = await pty.create({ ...size, onData, timeoutMs: 0 });
      const killed = [await pty.kill(other.pid), await other.wait().then(() => 'exited', () => 'ended')];
      const late = await failure((await pty.create({ ...size, onData, timeoutMs: 500 })).wait());
      return { first, resized, listed, again: output.includes('again-2'), isOld, exit, unknown, killed, late };
    `);
    expect(seen).toEqual({
      ...{ first: true, resized: true, listed: ['-i', '-l'], again: true, isOld: false, exit: 3 },
      ...{ unknown: [false, 'NotFoundError'], killed: [true, 'ended'], late: 'TimeoutError' },
    });
  });

  test('sandboxes are listed by state and metadata, in either order and in pages', async () => {
    const seen = await js<Record<string, unknown>>(`
      const metadata = { 'a key=': 'ü & ö', run: 'list' };
      const [one, two] = [await Sandbox.create({ metadata }), await Sandbox.create({ metadata: { run: 'list' } })];
      const ids = async (query, more = {}) => {
        const found = [];
        const pages = Sandbox.list({ query, ...more });
        while (pages.hasNext) found.push((await pages.nextItems()).map(({ sandboxId }) => [one, two].findIndex((each) => each.sandboxId === sandboxId)));
        return found;
      };
      const both = { run: 'list' };
      await two.pause();
      const seen = {
        metadata: await ids({ metadata }), pages: await ids({ metadata: both }, { limit: 1, order: 'asc' }),
        newest: await ids({ metadata: both }), paused: await ids({ metadata: both, state: ['paused'] }),
        running: await ids({ metadata: both, state: ['running'] }), again: await two.pause(), isRunning: await two.isRunning(),
      };
      const back = await Sandbox.connect(two.sandboxId);
      seen.back = await back.isRunning();
      await back.files.write('kept', 'text');
      await back.runCode('x = 1');
      await back.pause();
      const again = await Sandbox.connect(two.sandboxId, { onResume: 'reboot' });
      seen.rebooted = [await again.files.read('kept'), (await again.runCode('x')).error?.name];
      await Promise.all([one.kill(), two.kill()]);
      return seen;
    `);
    expect(seen).toEqual({
      metadata: [[0]],
      pages: [[0], [1]],
      newest: [[1, 0]],
      paused: [[1]],
      running: [[0]],
      again: false,
      isRunning: false,
      back: true,
      rebooted: ['text', 'NameError'],
    });
  });

  test('a timeout sets the end of a sandbox, connecting only moves it later, and metrics show its use', async () => {
    const seen = await js<{ lasts: number[]; metrics: { memTotal: number }[]; templates: boolean[] }>(`
      const left = async () => ((await sandbox.getInfo()).endAt - Date.now()) / 60_000;
      const lasts = [];
      await sandbox.setTimeout(3_600_000); lasts.push(await left());
      await Sandbox.connect(id, { timeoutMs: 60_000 }); lasts.push(await left());
      await sandbox.setTimeout(600_000); lasts.push(await left());
      await Sandbox.connect(id, { timeoutMs: 1_200_000 }); lasts.push(await left());
      await sandbox.updateNetwork({});
      const templates = [await Template.exists('base'), await Template.exists('python'), await Template.exists('nope')];
      return { lasts: lasts.map(Math.round), metrics: await sandbox.getMetrics(), templates };
    `);
    expect(seen.lasts).toEqual([60, 60, 10, 20]);
    expect(seen.templates).toEqual([true, true, false]);
    expect(seen.metrics).toMatchObject([{ memTotal: 320 * 2 ** 20, cpuCount: 1 }]);
  });

  test('a sandbox that has ended is gone for every call, and its end cuts the streams of its runs', async () => {
    const seen = await js<Record<string, unknown>>(`
      const mine = await Sandbox.create();
      let busy;
      const end = async () => { const error = await mine.pause().catch(({ message }) => message); await mine.kill(); return error; };
      const code = failure(mine.runCode('import time; print(1); time.sleep(60)', { onStdout: () => busy ??= end() }));
      const seen = { running: await mine.isRunning(), code: await code, busy: await busy, after: await mine.isRunning(), again: await mine.kill(),
        run: await failure(mine.runCode('1')), command: await failure(mine.commands.run('ls')), info: await failure(mine.getInfo()),
        timeout: await failure(mine.setTimeout(1000)) };
      const other = await Sandbox.create();
      const ends = [await other.commands.run('sleep 60', { background: true }), await other.pty.create({ cols: 80, rows: 24, onData: () => {} })]
        .map((each) => each.wait().catch(({ constructor, message }) => [constructor.name, message]));
      await other.kill();
      return { ...seen, killed: await Promise.all(ends) };
    `);
    const severed = ['TimeoutError', expect.stringContaining('killed or reached its end of life')];
    expect(seen).toEqual({
      running: true,
      code: 'TimeoutError',
      busy: expect.stringContaining('Code runs in the sandbox'),
      after: false,
      again: false,
      run: 'TimeoutError',
      command: 'SandboxNotFoundError',
      info: 'SandboxNotFoundError',
      timeout: 'SandboxNotFoundError',
      killed: [severed, severed],
    });
  });

  test('the Python clients work too, synchronous and asynchronous', async () => {
    const seen = await py<unknown>(`
sandbox = Sandbox.connect(os.environ['SANDBOX'])
sandbox.run_code('p = 20')
lines = []
done = sandbox.run_code('print("hi")\\np + 1', on_stdout=lambda message: lines.append(message.line))
context = sandbox.create_code_context()
sync = [done.text, lines, sandbox.run_code('1/0').error.name, sandbox.run_code('2', context=context).text,
  failure(lambda: sandbox.remove_code_context('nope')), failure(lambda: sandbox.run_code('import time; time.sleep(60)', timeout=1)),
  sandbox.files.write('py.txt', 'text').path, sandbox.files.read('py.txt'), failure(lambda: sandbox.files.read('nope')),
  [each.path for each in sandbox.files.write_files([{'path': 'py/1', 'data': '1'}, {'path': 'py/2', 'data': b'2'}])],
  sorted(each.name for each in sandbox.files.list('py')), sandbox.commands.run('echo $FOO').stdout,
  failure(lambda: sandbox.commands.run('exit 2')), failure(lambda: sandbox.commands.run('sleep 60', timeout=0.5)), sandbox.is_running()]
watch = sandbox.files.watch_dir('py')
changes = [len(watch.get_new_events())]
for change in [lambda: sandbox.files.write('py/3', '3'), lambda: sandbox.files.remove('py/3')]:
    change()
    changes.append([f'{event.type.value} {event.name}' for event in watch.get_new_events()])
watch.stop()
handle = sandbox.commands.run('read a; read b; echo $b $a', background=True, stdin=True)
sandbox.commands.stream_input(handle.pid, ['one\\n', b'two\\n'])
sync += [handle.wait().stdout, failure(lambda: sandbox.commands.stream_input(999999, ['lost']))]
sync += [changes, failure(lambda: sandbox.files.watch_dir('nope')), httpx.get(sandbox.download_url('py.txt', use_signature_expiration=60)).text]
async def main():
    mine = await AsyncSandbox.create(timeout=120)
    first = [(await mine.run_code('6 * 7')).text, await mine.files.exists('py.txt'), (await mine.commands.run('echo hi')).stdout]
    handle = await mine.commands.run('read l; echo $l', background=True, stdin=True)
    await mine.commands.send_stdin(handle.pid, 'in\\n')
    first.append((await handle.wait()).stdout)
    handle = await mine.commands.run('read a; read b; echo $b $a', background=True, stdin=True)
    async with mine.commands.stream_input(handle.pid) as stream:
        for line in ['one\\n', b'two\\n']: await stream.send(line)
    first.append((await handle.wait()).stdout)
    changed = asyncio.Event()
    watch = await mine.files.watch_dir('.', lambda event: changed.set())
    await mine.files.write('new', '')
    await asyncio.wait_for(changed.wait(), 20)
    await watch.stop()
    return [*first, await mine.kill(), await mine.is_running()]
show([sync, asyncio.run(main())])
`);
    expect(seen).toEqual([
      [
        ...['21', ['hi\n'], 'ZeroDivisionError', '2', 'NotFoundException', 'TimeoutException'],
        ...['/home/user/py.txt', 'text', 'FileNotFoundException', ['/home/user/py/1', '/home/user/py/2'], ['1', '2']],
        ...['bar\n', 'CommandExitException', 'TimeoutException', true],
        ...['two one\n', 'NotFoundException'],
        ...[[0, ['create 3', 'write 3'], ['remove 3']], 'FileNotFoundException', 'text'],
      ],
      ['42', false, 'hi\n', 'in\n', 'two one\n', true, false],
    ]);
  });

  test('the shell blocks of the page of the dialect print what the page says', async () => {
    await pasteDialectPage('e2b', gateway, { python });
  });
});

describe.each(mainDriver)('the E2B dialect in production, on the %s driver', (driver) => {
  let gateway: RunningGateway;
  beforeAll(async () => {
    gateway = await startGateway(driver, { CODEBOX_DIALECTS: 'e2b' });
  });
  afterAll(() => gateway?.dispose());

  test('a sandbox runs code and commands, exchanges files, pauses, resumes and ends', async () => {
    const { js } = clientsOf(() => ({ gateway, sandbox: '' }));
    const seen = await js(`
      const mine = await Sandbox.create({ timeoutMs: 120_000 });
      await mine.files.write('data.txt', 'kept');
      await mine.files.write('/tmp/other.txt', 'elsewhere');
      await mine.files.rename('/tmp/other.txt', 'moved.txt');
      const moved = await mine.files.getInfo('moved.txt');
      if (await mine.files.read('moved.txt') !== 'elsewhere' || moved.permissions !== '-rw-r--r--') throw new Error(moved.permissions);
      const seen = [(await mine.runCode('x = 41\\nx + 1')).text, (await mine.commands.run('cat data.txt')).stdout];
      seen.push(await mine.pause(), await mine.isRunning());
      const back = await Sandbox.connect(mine.sandboxId);
      return [...seen, await back.files.read('data.txt'), (await back.runCode('x')).text, await back.kill(), await back.isRunning()];
    `);
    expect(seen).toEqual(['42', 'kept', true, false, 'kept', '41', true, false]);
  });
});
