import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Box, Command, Execution } from '#contract';
import { anyDriver, drivers, eventually, mainDriver, type RunningGateway, startGateway, streamOf } from './harness.ts';

const mebibyte = 1024 * 1024;
/** How long a run past its limit may take to end: an interrupt, a kernel restart, and slack for a busy machine. */
const ladderMs = 8000;
/** Time limit of a run that fills its box with processes. */
const limitSeconds = 20;
/** Python that allocates up to 8 GiB in steps: a single impossible allocation would fail without an OOM kill. */
const eat = "[b'x' * (64 << 20) for _ in range(128)]";
/** Shell that waits until a process has exec'ed the given command line. */
const until = (line: string) => `until pgrep -xf "${line}" > /dev/null; do sleep 0.05; done`;

describe.each(drivers)('causes on the %s driver', (driver) => {
  // One way to reach the process limit is tested on each driver; all ways take long, so they are tested on one.
  const testOnce = anyDriver.includes(driver) ? test : () => {};
  let gateway: RunningGateway;
  let box: Box;
  beforeAll(async () => {
    gateway = await startGateway(driver, { CODEBOX_SWEEP_SECONDS: '1' });
    box = await gateway.createBox({ limits: { memoryMb: 512, diskMb: 64, pids: 80 } });
    await gateway.run(box.id, '1');
  });
  afterAll(() => gateway?.dispose());

  const run = (code: string, more: Record<string, unknown> = {}) => gateway.run(box.id, code, more);
  const command = async (line: string, more: Record<string, unknown> = {}) =>
    (await gateway.post<Command>(`/v1/boxes/${box.id}/commands`, { command: line, ...more })).body;
  const works = async () => expect((await run('1+1')).text).toBe('2');

  test.each([
    ['os.kill(os.getpid(), 9)', { code: 'signal', signal: 'SIGKILL' }],
    ['os.kill(os.getpid(), 15)', { code: 'signal', signal: 'SIGTERM' }],
    ['ctypes.string_at(0)', { code: 'signal', signal: 'SIGSEGV' }],
    ['os._exit(0)', { code: 'exit', exitCode: 0 }],
  ])(
    '%s is reported as killed with its cause and all output before it, and the next execution works',
    async (end, cause) => {
      const code = `import ctypes, os, sys\nprint("a" * 300_000)\nprint("last", file=sys.stderr)\nprint("words")\n${end}`;
      const killed = await run(code);
      expect(killed).toMatchObject({ status: 'killed', cause, stateLost: true, executionCount: expect.any(Number) });
      expect(killed.outputs?.at(-1)).toMatchObject({ type: 'stdout', text: 'words\n' });
      expect(killed.outputs?.at(-2)).toMatchObject({ type: 'stderr', text: 'last\n' });
      expect(streamOf(killed.outputs, 'stdout')).toBe(`${'a'.repeat(300_000)}\nwords\n`);
      await works();
    },
  );

  test('a kernel over the memory limit ends as oom, with the peak and the limit', async () => {
    const eaten = await run(`print("hungry")\nb = ${eat}`);
    expect(streamOf(eaten.outputs, 'stdout')).toBe('hungry\n');
    expect(eaten).toMatchObject({
      status: 'oom',
      cause: { code: 'oom', process: 'kernel', limitBytes: 512 * mebibyte },
      stateLost: true,
    });
    expect(eaten.cause?.peakMemoryBytes).toBeGreaterThan(400 * mebibyte);
    await works();
  });

  test('an OOM kill of a child process is reported, and the kernel keeps its variables', async () => {
    const eater = `python3 -c "b = ${eat}"`;
    const code = `kept = 7\nimport subprocess\nsubprocess.run(${JSON.stringify(eater)}, shell=True).returncode`;
    const survived = await run(code);
    expect(survived).toMatchObject({ status: 'ok', cause: { code: 'oom', process: 'child' }, stateLost: false });
    expect((await run('kept')).text).toBe('7');
    expect(await command(eater)).toMatchObject({ cause: { code: 'oom' } });
    expect(await command(`${eater}; echo on`)).toMatchObject({
      status: 'ok',
      stdout: 'on\n',
      cause: { code: 'oom', process: 'child' },
    });
  });

  test.each([
    ['while True: pass', 'interrupt', false],
    ['import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)\nwhile True: pass', 'restart', true],
    ['while True:\n  try: sum(range(10_000_000))\n  except KeyboardInterrupt: pass', 'restart', true],
  ])('%j ends soon after its time limit and reports the stage that ended it', async (code, stage, stateLost) => {
    await run('kept = 8');
    const late = await run(code, { timeoutSeconds: 1 });
    expect(late).toMatchObject({ status: 'timeout', cause: { code: 'timeout', stage }, stateLost });
    expect(late.durationMs).toBeLessThan(1000 + ladderMs);
    expect((await run('globals().get("kept")')).text).toBe(stateLost ? null : '8');
  });

  test('a run over its CPU limit ends with that cause, with the time of child processes counted', async () => {
    const busy = await run('while True: pass', { cpuSeconds: 0.5, timeoutSeconds: 30 });
    expect(busy).toMatchObject({
      status: 'timeout',
      cause: { code: 'cpu_limit', stage: 'interrupt' },
      stateLost: false,
    });
    const parent =
      'import subprocess, time\nchildren = [subprocess.Popen(["sh", "-c", "while :; do :; done"]) for _ in range(2)]\ntime.sleep(60)';
    const bred = await run(parent, { cpuSeconds: 0.5, timeoutSeconds: 30 });
    expect(bred).toMatchObject({ status: 'timeout', cause: { code: 'cpu_limit' }, processes: [] });
    expect(bred.cpuMs).toBeGreaterThan(400);
    const ended = await run('all(child.wait() < 0 for child in children)');
    expect(ended.text).toBe('True');
    expect(await command('while :; do :; done', { cpuSeconds: 0.5 })).toMatchObject({
      status: 'timeout',
      cause: { code: 'cpu_limit' },
    });
    expect(await run('import time; time.sleep(1.5)', { cpuSeconds: 1 })).toMatchObject({ status: 'ok' });
  });

  test('a full disk is reported with its usage, and the next execution works', async () => {
    const fill = 'with open("big", "wb") as file:\n  while True: file.write(bytes(1 << 20))';
    const full = await run(fill);
    expect(full).toMatchObject({ status: 'error', error: { name: 'OSError' }, cause: { code: 'disk_full' } });
    expect(full.cause?.usedBytes).toBeGreaterThan(32 * mebibyte);
    expect(full.cause?.limitBytes).toBeLessThanOrEqual(64 * mebibyte);
    expect(await command('head -c 5000000 /dev/zero > more')).toMatchObject({
      status: 'error',
      cause: { code: 'disk_full' },
    });
    // This failure has another cause than the full disk.
    const other = await run('1/0');
    expect([other.error?.name, other.cause]).toEqual(['ZeroDivisionError', undefined]);
    const again = await run('with open("small", "wb") as file: file.write(bytes(1 << 20))');
    expect(again).toMatchObject({ status: 'error', cause: { code: 'disk_full' } });
    await works();
    await run('import os; os.remove("big")');
    const failed = await run('1/0');
    expect(failed.status).toBe('error');
    expect(failed.cause).toBeUndefined();
  });

  test('a fork bomb ends as pids_limit and leaves no process, and the next execution works', async () => {
    // Enough memory for as many copies of a kernel, so that the process limit is reached first.
    const { id } = await gateway.createBox({ limits: { memoryMb: 4096, pids: 80 } });
    const inBox = (code: string) => gateway.run(id, code, { timeoutSeconds: 30 });
    const goesOn = async () => {
      expect((await inBox('1+1')).text).toBe('2');
      const echo = await gateway.post<Command>(`/v1/boxes/${id}/commands`, { command: 'echo room' });
      expect(echo.body).toMatchObject({ status: 'ok', stdout: 'room\n' });
    };
    const bomb = await inBox('import os\nwhile True: os.fork()');
    expect(bomb).toMatchObject({ cause: { code: 'pids_limit' }, processes: [] });
    // The kernel is killed unless its original process is the first whose fork fails.
    expect(['error', 'killed']).toContain(bomb.status);
    await goesOn();
    const sleeper = 'threading.Thread(target=time.sleep, args=(5,)).start()';
    const threads = await inBox(`import threading, time\nwhile True: ${sleeper}`);
    expect(threads).toMatchObject({ cause: { code: 'pids_limit' } });
    // The same holds for its threads.
    expect(['error', 'killed']).toContain(threads.status);
    expect((await inBox('1+1')).text).toBe('2');
    const children = 'import subprocess\nchildren = []\nwhile True: children.append(subprocess.Popen(["sleep", "60"]))';
    const many = await inBox(children);
    expect(many).toMatchObject({ cause: { code: 'pids_limit' }, processes: [] });
    // The watch over the box may find it full before a fork fails.
    expect(['error', 'killed']).toContain(many.status);
    await goesOn();
    await gateway.client.boxes.delete(id);
  });

  const breeding = ':(){ :|:& };:';
  const forking = 'import os\nwhile True:\n  try: os.fork()\n  except Exception: pass';
  const spawning = 'const { spawn } = require("child_process")\nfor (;;) spawn("sleep", ["60"]).on("error", () => {})';
  testOnce(
    'every way to fill a box with processes ends as pids_limit, and the box keeps its files and works',
    async () => {
      const { id } = await gateway.createBox({ limits: { memoryMb: 4096, pids: 120 } });
      const path = `/v1/boxes/${id}`;
      const goesOn = async () => {
        const seen = await gateway.post<Command>(`${path}/commands`, { command: 'cat kept.txt; echo room' });
        expect(seen.body).toMatchObject({ status: 'ok', stdout: 'here\nroom\n' });
        expect((await gateway.run(id, '1 + 1')).text).toBe('2');
      };
      await gateway.run(id, 'open("kept.txt", "w").write("here\\n")');
      const full = { status: 'killed', cause: { code: 'pids_limit' }, processes: [] };
      for (const [language, code] of [
        ['bash', breeding],
        ['python', forking],
        ['javascript', spawning],
      ]) {
        expect(await gateway.run(id, code ?? '', { language, timeoutSeconds: 60 }), language).toMatchObject(full);
        await goesOn();
      }
      for (const command of [breeding, `${breeding}; sleep 60`]) {
        expect((await gateway.post<Command>(`${path}/commands`, { command })).body, command).toMatchObject(full);
        await goesOn();
      }
      // Processes of a terminal, or of a run that has ended, are killed without a report.
      const terminal = await gateway.client.terminals.open(id);
      const later = () => gateway.run(id, `(sleep 1; ${breeding}) &`, { language: 'bash' });
      const pids = async () => (await gateway.client.boxes.stats(id)).pids.count;
      for (const begin of [later, async () => terminal.write(`${breeding}\r`)]) {
        await begin();
        await eventually(async () => (await pids()) > 100);
        await eventually(async () => (await pids()) < 60);
        await goesOn();
      }
      terminal.close();
      await gateway.client.boxes.delete(id);
    },
  );

  const loop = (attempt: string) => `while True:\n  try: ${attempt}\n  except BaseException: pass`;
  const forkLoops = [
    ['in the kernel', `import os\n${loop('os.fork()')}`],
    ['by daemons', `import os\n${loop('os.fork() == 0 and os.setsid()')}`],
  ] as const;
  test.each(mainDriver.includes(driver) ? forkLoops : [])(
    'a fork loop %s that catches every error ends near its time limit, and the next run finds the files',
    async (_, code) => {
      // Room for as many processes as a box may have: otherwise the memory would be used up first.
      const { id } = await gateway.createBox({ limits: { memoryMb: 2048 } });
      await gateway.run(id, 'open("kept.txt", "w").write("here")');
      const bomb = await gateway.run(id, code, { timeoutSeconds: limitSeconds });
      expect(bomb).toMatchObject({ status: 'killed', cause: { code: 'pids_limit' }, processes: [] });
      // All these processes compete for the CPUs, so that the interrupt, the kill and each exit are slow.
      expect(bomb.durationMs).toBeLessThan(3 * limitSeconds * 1000);
      expect((await gateway.run(id, 'open("kept.txt").read()')).text).toBe("'here'");
      await gateway.client.boxes.delete(id);
    },
  );

  testOnce(
    'a run reports the processes that it leaves running, daemons included, and no later run reports them',
    async () => {
      const code = [
        'import os, subprocess',
        'subprocess.Popen(["sleep", "101"])',
        'os.system("sleep 102 &")',
        'os.system("setsid sleep 103 &")',
        'os.system("setsid -f sleep 104")',
        ...[102, 103, 104].map((seconds) => `os.system('${until(`sleep ${seconds}`)}')`),
      ].join('\n');
      const left = await run(code);
      expect(left.processes?.map((process) => process.command).sort()).toEqual([
        'sleep 101',
        'sleep 102',
        'sleep 103',
        'sleep 104',
      ]);
      for (const process of left.processes ?? []) expect(process.memoryBytes).toBeGreaterThan(0);
      const pid = Number(left.processes?.[0]?.pid);
      expect((await run(`os.kill(${pid}, 0)`)).status).toBe('ok');
      expect((await run('1')).processes).toEqual([]);
      const reported = await command(
        `nohup sleep 105 > /dev/null 2>&1 & setsid -f sleep 106; ${until('sleep 105')}; ${until('sleep 106')}`,
      );
      expect(reported.processes?.map((process) => process.command).sort()).toEqual(['sleep 105', 'sleep 106']);
      await run('os.system("pkill sleep")');
      const shell = await run(`sleep 107 & ${until('sleep 107')}`, { language: 'bash' });
      expect(shell.processes?.map((process) => process.command)).toEqual(['sleep 107']);
      const many = await run('for _ in range(22): subprocess.Popen(["sleep", "108"])');
      expect(many.processes).toHaveLength(20);
      const read = await gateway.get<Execution>(`/v1/boxes/${box.id}/executions/${many.id}`);
      expect(read.body.processes).toHaveLength(20);
      await command('pkill sleep');
    },
  );

  // That a driver counts the CPU time of a box is tested with its statistics.
  testOnce('a box that has used its CPU time refuses new runs, ends running ones, and keeps its files', async () => {
    const small = await gateway.createBox({ limits: { cpuSeconds: 3 } });
    expect(small.limits.cpuSeconds).toBe(3);
    await gateway.run(small.id, 'open("kept.txt", "w").write("here")');
    const busy = await gateway.run(small.id, 'while True: pass', { timeoutSeconds: 90 });
    expect(busy).toMatchObject({ status: 'timeout', cause: { code: 'cpu_limit' } });
    const refused = await eventually(async () => {
      const response = await gateway.post(`/v1/boxes/${small.id}/executions`, { code: '1' });
      return response.status !== 200 && response;
    });
    expect(refused).toMatchObject({ status: 403, body: { code: 'cpu_limit' } });
    expect((await gateway.post(`/v1/boxes/${small.id}/commands`, { command: 'true' })).status).toBe(403);
    expect((await gateway.post(`/v1/boxes/${small.id}/packages`, { packages: ['./x.whl'] })).status).toBe(403);
    expect(await (await gateway.call(`/v1/boxes/${small.id}/files/kept.txt`)).text()).toBe('here');
  });

  testOnce('endless output ends as output_limit', async () => {
    const flood = await run('while True: print("x" * 100_000)', { timeoutSeconds: 60 });
    expect(flood).toMatchObject({ status: 'output_limit', cause: { code: 'output_limit' } });
    expect(streamOf(flood.outputs, 'stdout').length).toBeGreaterThan(mebibyte);
    await works();
  });
});
