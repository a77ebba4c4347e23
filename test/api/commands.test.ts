import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type Box, type Command, type CommandEvent, commandEventSchema, type Run } from '#contract';
import { anyDriver, drivers, eventually, type RunningGateway, startGateway } from './harness.ts';

describe.each(drivers)('commands and one-shot runs on the %s driver', (driver) => {
  // These tests do not depend on the driver.
  const testOnce = anyDriver.includes(driver) ? test : () => {};
  let gateway: RunningGateway;
  let box: Box;
  beforeAll(async () => {
    gateway = await startGateway(driver);
    box = await gateway.createBox();
  });
  afterAll(() => gateway?.dispose());

  const path = (rest = '') => `/v1/boxes/${box.id}/commands${rest}`;
  const command = async (body: unknown) => (await gateway.post<Command>(path(), body)).body;
  const parse = (text: string): CommandEvent[] =>
    text
      .split('\n')
      .filter((line) => line !== '')
      .map((line) => commandEventSchema.parse(JSON.parse(line)));

  test('a command returns both streams, its exit code or signal, and its folder', async () => {
    expect(await command({ command: 'echo out; echo err >&2; exit 3' })).toMatchObject({
      status: 'error',
      exitCode: 3,
      stdout: 'out\n',
      stderr: 'err\n',
    });
    expect(await command({ argv: ['printf', '%s', '$HOME; `id`'] })).toMatchObject({
      status: 'ok',
      exitCode: 0,
      stdout: '$HOME; `id`',
    });
    await command({ command: 'mkdir sub' });
    expect(await command({ command: 'pwd; echo $A', cwd: 'sub', env: { A: '$(x)' } })).toMatchObject({
      stdout: '/mnt/data/sub\n$(x)\n',
    });
    for (const [cwd, shown] of [
      [undefined, ''],
      ['/mnt/data', ''],
      ['sub/../sub', 'sub'],
      ['/tmp', '/tmp'],
    ]) {
      const started = await command({ command: 'true', cwd });
      const read = await gateway.get<Command>(path(`/${started.id}`));
      expect([started.cwd, read.body.cwd]).toEqual([shown, shown]);
    }
    expect(await command({ command: 'kill -9 $$' })).toMatchObject({
      exitCode: null,
      signal: 'SIGKILL',
      status: 'killed',
    });
  });

  testOnce('output is streamed while a command runs, and the stream can be resumed', async () => {
    const response = await gateway.call(path(), {
      method: 'POST',
      headers: { accept: 'application/x-ndjson' },
      body: JSON.stringify({ command: 'for i in 1 2 3 4; do echo $i; sleep 0.4; done' }),
    });
    const reader = response.body?.getReader();
    let text = '';
    while (!text.includes('"1\\n"')) text += new TextDecoder().decode((await reader?.read())?.value);
    await reader?.cancel();
    const seen = parse(text);
    const location = response.headers.get('content-location');
    const [first] = seen;
    expect(first?.type === 'started' && path(`/${first.command}`)).toBe(location);
    const [again] = parse(await (await gateway.call(`${location}/events`)).text());
    expect(again).toEqual(first);
    const rest = await gateway.call(`${location}/events?after=${seen.at(-1)?.seq}`);
    const all = [...seen, ...parse(await rest.text())];
    expect(all.map((event) => event.seq)).toEqual(all.map((_, index) => index + 1));
    expect(all.map((event) => (event.type === 'stdout' ? event.text : '')).join('')).toBe('1\n2\n3\n4\n');
    expect(all.at(-1)).toMatchObject({ type: 'done', exitCode: 0 });
  });

  test('stdin of a detached command can be written and closed, and the command can be ended', async () => {
    const started = await gateway.post<Command>(path(), { command: 'cat; echo end; sleep 100', detach: true });
    expect(started.status).toBe(202);
    const own = path(`/${started.body.id}`);
    expect((await gateway.post(`${own}/input`, { text: 'hello\n' })).status).toBe(204);
    expect((await gateway.post(`${own}/input`, { base64: 'd29ybGQK', eof: true })).status).toBe(204);
    await eventually(async () => (await gateway.get<Command>(own)).body.stdout === 'hello\nworld\nend\n');
    expect((await gateway.post(`${own}/input`, { text: 'late' })).status).toBe(409);
    const listed = (await gateway.get<{ items: Command[] }>(path())).body.items;
    expect(listed.find((item) => item.id === started.body.id)).toMatchObject({ status: 'running' });
    expect((await gateway.call(own, { method: 'DELETE' })).status).toBe(202);
    await eventually(async () => (await gateway.get<Command>(own)).body.status === 'killed');
  });

  testOnce('stdin is the text sent with the command and then EOF, unless openStdin is set', async () => {
    const asking = await command({ argv: ['python3', '-c', 'input()'] });
    expect(asking).toMatchObject({ status: 'error', exitCode: 1, stderr: expect.stringContaining('EOFError') });
    expect(await command({ command: 'cat; echo end', stdin: 'é\n' })).toMatchObject({ stdout: 'é\nend\n' });
    const closed = await gateway.post<Command>(path(), { command: 'cat; sleep 100', stdin: 'x', detach: true });
    expect((await gateway.post(path(`/${closed.body.id}/input`), { text: 'late' })).status).toBe(409);
    await gateway.call(path(`/${closed.body.id}`), { method: 'DELETE' });
    const open = await gateway.post<Command>(path(), { command: 'cat', stdin: 'x', openStdin: true, detach: true });
    expect((await gateway.post(path(`/${open.body.id}/input`), { text: 'y', eof: true })).status).toBe(204);
    await eventually(async () => (await gateway.get<Command>(path(`/${open.body.id}`))).body.stdout === 'xy');
  });

  test('a command past its time limit ends as timeout, and so do its child processes', async () => {
    const late = await command({ command: 'sleep 321 & sleep 321', timeoutSeconds: 1 });
    expect(late.status).toBe('timeout');
    expect((await command({ command: 'ps -ef | grep "[s]leep 321" | wc -l' })).stdout.trim()).toBe('0');
  });

  test('a one-shot run in a kernel returns results and changed files, and leaves no box', async () => {
    const code = 'open("out.txt","w").write("made here")\n6*7';
    const { status, body } = await gateway.post<Run>('/v1/run', { code });
    expect(status).toBe(200);
    expect(body).toMatchObject({ status: 'ok', text: '42', exitCode: null });
    expect(body.files).toEqual([
      { path: 'out.txt', change: 'created', sizeBytes: 9, base64: Buffer.from('made here').toString('base64') },
    ]);
    const left = (await gateway.get<{ items: Box[] }>('/v1/boxes')).body.items;
    expect(left.map((item) => item.id)).toEqual([box.id]);
  });

  testOnce('input() in a one-shot run fails at once, and with stdin it reads that', async () => {
    const code = 'print("Hello", input())';
    const { body } = await gateway.post<Run>('/v1/run', { code });
    expect(body).toMatchObject({
      status: 'error',
      error: { value: 'input() has no one to answer it here: send `stdin`, or use a box' },
    });
    expect(body.durationMs).toBeLessThan(10_000);
    expect((await gateway.post<Run>('/v1/run', { code, stdin: 'Ada\n' })).body.stdout).toBe('Hello Ada\n');
  });

  testOnce(
    'a one-shot run keeps its outputs if a changed file cannot be read, and returns at most 256 files',
    async () => {
      const code = [
        'import os',
        'os.symlink("nowhere", "dangling"); os.mkfifo("pipe"); os.mkdir("folder"); os.symlink("loop", "loop")',
        'open("big.bin","wb").write(b"0" * (5 << 20)); open("kept.txt","w").write("kept")',
        '"all well"',
      ].join('\n');
      const odd = await gateway.post<Run>('/v1/run', { language: 'python', code });
      expect(odd.body).toMatchObject({ status: 'ok', text: "'all well'" });
      const kept = odd.body.files.filter(({ path }) => path === 'kept.txt' || path === 'big.bin');
      expect(kept.map(({ sizeBytes, base64 }) => [sizeBytes, base64]).sort()).toEqual([
        [4, 'a2VwdA=='],
        [5 << 20, null],
      ]);
      const many = 'for i in range(300): open(f"{i}","w").close()';
      const capped = await gateway.post<Run>('/v1/run', { language: 'python', code: many });
      expect([capped.status, capped.body.files.length]).toEqual([200, 256]);
    },
  );

  test.each([
    ['python', 'import sys; print(sys.argv[1:], sys.stdin.read().upper())', "['a b', '$c'] HI\n"],
    [
      'javascript',
      'let s = ""; for await (const d of process.stdin) s += d; console.log(process.argv.slice(2), s.toUpperCase())',
      "[ 'a b', '$c' ] HI\n",
    ],
    [
      'typescript',
      'enum E { A = 5 } let s: string = ""; for await (const d of process.stdin) s += d; console.log(process.argv.slice(2), s.toUpperCase())',
      "[ 'a b', '$c' ] HI\n",
    ],
    ['bash', 'printf "[%s|%s] " "$1" "$2"; tr a-z A-Z; echo', '[a b|$c] HI\n'],
  ])('a one-shot run of a %s program takes stdin and args', async (language, code, stdout) => {
    const { body } = await gateway.post<Run>('/v1/run', { language, code, stdin: 'hi', args: ['a b', '$c'] });
    expect(body).toMatchObject({ status: 'ok', exitCode: 0, stdout, stderr: '' });
  });

  testOnce('a one-shot run of several files runs the first', async () => {
    const files = [
      { path: 'app/main.py', text: 'import helper; print(helper.f())' },
      { path: 'app/helper.py', text: 'def f(): return 5' },
    ];
    expect((await gateway.post<Run>('/v1/run', { language: 'python', files })).body).toMatchObject({
      status: 'ok',
      stdout: '5\n',
    });
  });
});
