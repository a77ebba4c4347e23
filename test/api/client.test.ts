import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Box, Client, ExecutionEvent, TerminalConnection } from '#contract';
import { anyDriver, collect, eventually, type RunningGateway, refusal, startGateway, streamOf } from './harness.ts';
import { downloadWheels } from './wheels.ts';

/** Reads a terminal until its screen shows `text`, then disconnects. */
const screen = async (terminal: TerminalConnection, text: string): Promise<void> => {
  let shown = '';
  for await (const event of terminal) {
    if (event.type === 'output') shown += new TextDecoder().decode(event.bytes);
    if (shown.includes(text)) return;
  }
  throw new Error(`the terminal ended with: ${shown}`);
};

let wheels: Awaited<ReturnType<typeof downloadWheels>>;
beforeAll(async () => {
  wheels = await downloadWheels('cowsay');
});
afterAll(() => wheels?.[Symbol.asyncDispose]());

describe.each(anyDriver)('the client on the %s driver', (driver) => {
  let gateway: RunningGateway;
  let client: Client;
  let box: Box;
  beforeAll(async () => {
    gateway = await startGateway(driver, { CODEBOX_WHEELS_DIR: wheels.folder });
    client = gateway.client;
    box = await client.boxes.create({ user: 'ada', metadata: { of: 'test' } });
  });
  afterAll(() => gateway?.dispose());

  test('boxes can be created, found, updated, kept alive and deleted', async () => {
    const again = await client.boxes.create({ user: 'ada', reuse: true });
    expect(again).toMatchObject({ id: box.id, continuity: 'reused' });
    const other = await client.boxes.create({ idleSeconds: 100 });
    expect((await client.boxes.update(other.id, { idleSeconds: 200, metadata: { a: 'b' } })).idleSeconds).toBe(200);
    const kept = await client.boxes.keepalive(other.id);
    expect(Date.parse(kept.expiresAt)).toBeGreaterThan(Date.now() + 100_000);
    expect((await collect(client.boxes.list({ metadata: 'a=b' }))).map(({ id }) => id)).toEqual([other.id]);
    await client.boxes.delete(other.id);
    await client.boxes.delete(other.id);
    expect(await client.boxes.read(other.id)).toMatchObject({ state: 'deleted', cause: { code: 'deleted' } });
    const [template] = await collect(client.templates.list());
    expect(await client.templates.read(template?.name ?? '')).toMatchObject({ ...template });
  });

  test('a list iterates over all its pages, and stops fetching when its reader stops', async () => {
    for (let i = 0; i < 3; i++) await client.files.write(box.id, `pages/${i}`, 'x');
    const user = `pager-${driver}`;
    const mine = await client.boxes.create({ user });
    const both = await collect(client.boxes.list({ limit: 1 }));
    expect(both.map(({ id }) => id)).toEqual([mine.id, box.id]);
    for await (const first of client.boxes.list({ limit: 1 })) {
      expect(first.id).toBe(mine.id);
      break;
    }
    await client.boxes.delete(mine.id);
    expect((await collect(client.files.list(box.id, 'pages'))).map(({ name }) => name)).toEqual(['0', '1', '2']);
  });

  test('code can be run, started, streamed, given input and interrupted', async () => {
    await client.executions.run(box.id, { code: 'x = 41' });
    expect(await client.executions.run(box.id, { code: 'x + 1' })).toMatchObject({ status: 'ok', text: '42' });
    const events = await collect(await client.executions.stream(box.id, { code: 'print("hello")\n1/0' }));
    expect(events.map(({ type }) => type)).toEqual(['started', 'stdout', 'error', 'done']);

    const greeting = await client.executions.stream(box.id, { code: 'print("Hello", input("Who? "))' });
    const received: ExecutionEvent[] = [];
    for await (const event of greeting) {
      received.push(event);
      if (event.type === 'input_request') await client.executions.input(box.id, greeting.id, 'Ada');
    }
    expect(streamOf(received, 'stdout')).toContain('Hello Ada\n');

    const busy = await client.executions.start(box.id, { code: 'while True: pass' });
    expect(busy.status).toBe('running');
    for await (const event of client.executions.events(box.id, busy.id)) {
      if (event.type === 'started') await client.executions.interrupt(box.id, busy.id);
    }
    expect(await client.executions.wait(box.id, busy.id)).toMatchObject({ status: 'interrupted', stateLost: false });
    expect((await collect(client.executions.list(box.id)))[0]?.id).toBe(busy.id);
  });

  test('contexts can be created, run in, restarted, listed and deleted', async () => {
    const context = await client.contexts.create(box.id, { language: 'python' });
    await client.executions.run(box.id, { code: 'y = 1', context: context.id });
    await client.contexts.restart(box.id, context.id);
    const { error } = await client.executions.run(box.id, { code: 'y', context: context.id });
    expect(error?.name).toBe('NameError');
    expect((await collect(client.contexts.list(box.id))).map(({ id }) => id)).toContain(context.id);
    await client.contexts.delete(box.id, context.id);
    expect((await collect(client.contexts.list(box.id))).map(({ id }) => id)).not.toContain(context.id);
  });

  test('commands can be run, given input and ended', async () => {
    expect(await client.commands.run(box.id, { command: 'echo out; exit 3' })).toMatchObject({
      status: 'error',
      exitCode: 3,
      stdout: 'out\n',
    });
    const sort = await client.commands.start(box.id, { argv: ['sort'] });
    await client.commands.input(box.id, sort.id, { text: 'b\na\n', eof: true });
    expect((await client.commands.wait(box.id, sort.id)).stdout).toBe('a\nb\n');
    const sleeping = await client.commands.stream(box.id, { command: 'sleep 1000' });
    await client.commands.delete(box.id, sleeping.id);
    expect((await collect(sleeping)).at(-1)).toMatchObject({ type: 'done', status: 'killed' });
    expect((await collect(client.commands.list(box.id))).map(({ id }) => id)).toContain(sleeping.id);
  });

  test('files of any content and name can be written, read, uploaded and deleted', async () => {
    const path = 'a folder/über #1 %41?.bin';
    const bytes = Uint8Array.from({ length: 100_000 }, (_, i) => i % 256);
    const entry = await client.files.write(box.id, path, bytes);
    expect(entry).toMatchObject({ path, sizeBytes: bytes.length });
    expect(Buffer.compare(await client.files.read(box.id, path), bytes)).toBe(0);
    expect([...(await client.files.read(box.id, path, { range: { start: 1, end: 3 } }))]).toEqual([1, 2, 3]);

    const pieces = new ReadableStream({
      start(controller) {
        for (const text of ['one ', 'two']) controller.enqueue(new TextEncoder().encode(text));
        controller.close();
      },
    });
    const streamed = await client.files.write(box.id, 'text', pieces);
    expect(await client.files.readText(box.id, 'text')).toBe('one two');
    expect((await refusal(client.files.write(box.id, 'text', 'x', { create: true }))).code).toBe('precondition_failed');
    await client.files.write(box.id, 'text', 'three', streamed.etag ? { ifMatch: streamed.etag } : {});
    expect(await (await client.files.open(box.id, 'text')).text()).toBe('three');

    await client.files.makeFolder(box.id, 'many');
    await client.files.upload(box.id, { 'many/a': 'A', 'many/b': new Blob(['B']) });
    expect((await collect(client.files.list(box.id, 'many'))).map(({ name }) => name)).toEqual(['a', 'b']);
    await client.files.delete(box.id, 'many');
    expect(await refusal(client.files.readText(box.id, 'many/a'))).toMatchObject({ code: 'not_found', status: 404 });
  });

  test('files can be moved, copied, archived, extracted and fetched', async () => {
    await client.files.upload(box.id, { 'from/a.txt': 'A', 'from/sub/b.txt': 'B' });
    expect(await client.files.move(box.id, 'from/a.txt', 'from/c.txt')).toMatchObject({ path: 'from/c.txt' });
    await client.files.copy(box.id, 'from', 'twin');
    expect((await refusal(client.files.copy(box.id, 'from', 'twin'))).code).toBe('conflict');
    await client.files.copy(box.id, 'from', 'twin', { overwrite: true });
    const tree = await collect(client.files.list(box.id, 'twin', { recursive: true }));
    expect(tree.map(({ path }) => path)).toEqual(['twin/c.txt', 'twin/sub', 'twin/sub/b.txt']);
    const archive = await client.files.archive(box.id, 'twin', 'zip');
    await client.files.write(box.id, 'twin.zip', archive.body ?? '');
    await client.files.extract(box.id, 'twin.zip', { to: 'back' });
    expect(await client.files.readText(box.id, 'back/sub/b.txt')).toBe('B');
    // Nothing listens on that port inside the box, which sends the request.
    expect((await refusal(client.files.fetch(box.id, 'http://127.0.0.1:9/x', 'x'))).status).toBeGreaterThan(399);
  });

  test('packages can be installed and listed', async () => {
    const { status, installed } = await client.packages.install(box.id, { packages: ['cowsay'] });
    expect([status, installed?.map(({ name }) => name)]).toEqual(['ok', ['cowsay']]);
    const events = await collect(await client.packages.stream(box.id, { packages: ['cowsay'] }));
    expect(events.at(-1)).toMatchObject({ type: 'done', status: 'ok', installed: [] });
    const started = await client.packages.start(box.id, { packages: ['no-such-package'] });
    expect((await client.commands.wait(box.id, started.id)).status).toBe('error');
    const listed = await collect(client.packages.list(box.id));
    expect(listed.filter(({ source }) => source === 'user').map(({ name }) => name)).toEqual(['cowsay']);
  });

  test('a server in the box can be reached, and a ticket is valid once', async () => {
    await client.files.write(box.id, 'site/index.html', 'served');
    const server = await client.commands.start(box.id, { command: 'python3 -m http.server -d site 5000' });
    const page = await eventually(async () => {
      const response = await client.ports.fetch(box.id, 5000, '/index.html');
      return response.ok && response;
    });
    expect(await page.text()).toBe('served');
    const { ticket } = await client.tickets.create(box.id);
    const url = `${client.ports.url(box.id, 5000)}?ticket=${ticket}`;
    const uses = [await fetch(url, { redirect: 'manual' }), await fetch(url, { redirect: 'manual' })];
    expect(uses.map(({ status }) => status < 400)).toEqual([true, false]);
    await client.commands.delete(box.id, server.id);
  });

  test('a terminal can be opened, resized, left, reopened and ended', async () => {
    const first = await client.terminals.open(box.id, { cols: 100, rows: 30 });
    expect([first.cols, first.rows]).toEqual([100, 30]);
    first.resize(120, 40);
    first.write('stty size; x=kept\r');
    await screen(first, '40 120');
    const again = await client.terminals.open(box.id, { terminal: first.id });
    expect(again.replayedBytes).toBeGreaterThan(0);
    await screen(again, '40 120');
    const third = await client.terminals.open(box.id, { terminal: first.id });
    third.write('echo is $x; exit 3\r');
    const events = await collect(third);
    expect(events.at(-1)).toEqual({ type: 'exit', exitCode: 3, signal: null });
    const other = await client.terminals.open(box.id);
    expect((await collect(client.terminals.list(box.id))).map(({ id }) => id)).toEqual([other.id]);
    await client.terminals.delete(box.id, other.id);
    expect((await collect(other)).at(-1)?.type).toBe('exit');
    expect((await refusal(client.terminals.open(box.id, { terminal: other.id }))).code).toBe('unavailable');
    expect((await refusal(client.terminals.open('box-none'))).code).toBe('not_found');
  });

  test('one session carries many executions, and another session can attach to them', async () => {
    const session = await client.session(box.id);
    const [one, prompting] = await Promise.all([
      session.execute({ code: 'print("one")' }),
      session.execute({ code: 'print("got", input())' }),
    ]);
    expect(streamOf(await collect(one), 'stdout')).toBe('one\n');
    const received: ExecutionEvent[] = [];
    for await (const event of prompting) {
      received.push(event);
      if (event.type === 'input_request') await session.input(prompting.id, 'it');
    }
    expect(streamOf(received, 'stdout')).toContain('got it\n');
    const loop = await session.execute({ code: 'print("in")\nwhile True: pass' });
    for await (const event of loop) if (event.type === 'stdout') break;
    expect((await refusal(session.input(loop.id, 'x'))).reason).toBe('not_waiting');
    expect((await refusal(session.execute({ code: '1', timeoutSeconds: -1 }))).errors[0]?.pointer).toBe(
      '/timeoutSeconds',
    );
    session.close();
    const other = await client.session(box.id);
    const rest = await other.attach(loop.id, 2);
    await other.interrupt(loop.id);
    const events = await collect(rest);
    expect([events[0]?.seq, events.at(-1)]).toMatchObject([3, { type: 'done', status: 'interrupted' }]);
    other.close();
    expect((await refusal(session.interrupt(loop.id))).code).toBe('unavailable');
  });

  test('the usage of a box can be read once and as a stream', async () => {
    expect((await client.boxes.stats(box.id)).memory.limitBytes).toBe(box.limits.memoryMb * 1024 * 1024);
    const counts: number[] = [];
    for await (const { seq, pids } of client.boxes.watchStats(box.id, { everySeconds: 0.5 })) {
      counts.push(seq);
      expect(pids.count).toBeGreaterThan(0);
      if (seq === 2) break;
    }
    expect(counts).toEqual([1, 2]);
  });

  test('variables can be listed and files searched', async () => {
    const context = await client.contexts.create(box.id, { language: 'python', env: { WHO: 'ada' } });
    await client.executions.run(box.id, { context: context.id, code: 'import os; who = os.environ["WHO"]' });
    const variables = await collect(client.contexts.variables(box.id, context.id));
    expect(variables).toMatchObject([{ name: 'who', type: 'str', length: 3 }]);
    await client.contexts.delete(box.id, context.id);
    await client.files.upload(box.id, { 'found/a.py': 'x = 1\nneedle = 2\n', 'found/b.txt': 'Needle' });
    const named = await collect(client.files.search(box.id, { name: '*.py', path: 'found' }));
    expect(named.map(({ path }) => path)).toEqual(['found/a.py']);
    const lines = await collect(
      client.files.search(box.id, { content: 'needle', path: 'found', caseSensitive: false }),
    );
    expect(lines.map(({ path, line }) => [path, line])).toEqual([
      ['found/a.py', 2],
      ['found/b.txt', 1],
    ]);
  });

  test('changes of files can be watched', async () => {
    const seen: string[] = [];
    for await (const event of client.files.watch(box.id, { path: '' })) {
      if (event.type === 'ready') await client.files.write(box.id, 'watched.txt', 'x');
      if ('path' in event) seen.push(`${event.type} ${event.path}`);
      if (seen.includes('create watched.txt')) break;
    }
    expect(seen).toContain('create watched.txt');
  });

  test('a one-shot run needs no box', async () => {
    expect(await client.run({ language: 'python', code: '6 * 7' })).toMatchObject({ status: 'ok', text: '42' });
  });
});
