import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Box, Execution, ExecutionEvent } from '#contract';
import { openStore } from '../../services/gateway/store/store.ts';
import {
  anyDriver,
  databaseUrl,
  drivers,
  eventually,
  type RunningGateway,
  readEvents,
  startGateway,
  streamOf,
} from './harness.ts';

describe.each(drivers)('executions on the %s driver', (driver) => {
  // These tests do not depend on the driver.
  const testOnce = anyDriver.includes(driver) ? test : () => {};
  let gateway: RunningGateway;
  let box: Box;
  beforeAll(async () => {
    gateway = await startGateway(driver);
    box = await gateway.createBox();
  });
  afterAll(() => gateway?.dispose());

  const path = (rest = '') => `/v1/boxes/${box.id}/executions${rest}`;
  const stream = (code: string, accept = 'application/x-ndjson', more = {}) =>
    gateway.call(path(), { method: 'POST', headers: { accept }, body: JSON.stringify({ code, ...more }) });

  test('variables persist from one execution to the next', async () => {
    const first = await gateway.run(box.id, 'x=41');
    expect(first).toMatchObject({ status: 'ok', outputs: [], text: null, stateLost: false });
    const second = await gateway.run(box.id, 'x+1');
    expect(second).toMatchObject({ status: 'ok', text: '42', language: 'python', context: first.context });
    expect(second.executionCount).toBe((first.executionCount ?? 0) + 1);
  });

  test('all outputs of a cell are returned in order, with every MIME type', async () => {
    const code = [
      'import sys, pandas as pd',
      'from IPython.display import display, HTML',
      'print("one")',
      'print("two", file=sys.stderr)',
      'display(HTML("<b>three</b>"))',
      'print("four")',
      'pd.DataFrame({"a": [1, 2]})',
    ].join('\n');
    const { outputs } = await gateway.run(box.id, code);
    expect(outputs?.map((event) => event.type)).toEqual(['stdout', 'stderr', 'display', 'stdout', 'result']);
    const result = outputs?.at(-1) as ExecutionEvent & { type: 'result' };
    expect(result.mime['text/html']).toContain('<table');
    expect(result.mime['text/plain']).toContain('a');
  });

  test('an error in code is a 200 with its name, value and traceback', async () => {
    const failed = await gateway.run(box.id, 'def f():\n  return 1/0\nf()');
    expect(failed).toMatchObject({ status: 'error', error: { name: 'ZeroDivisionError', value: 'division by zero' } });
    expect(failed.error?.traceback.join('\n')).toContain('f()');
  });

  test('a figure is returned as PNG without plt.show()', async () => {
    const drawn = await gateway.run(box.id, 'import matplotlib.pyplot as plt\n_ = plt.plot([1, 2, 3])', {
      timeoutSeconds: 120,
    });
    const figure = drawn.outputs?.find((event) => event.type === 'display');
    const png = Buffer.from(String(figure?.mime['image/png']), 'base64');
    expect(png.subarray(1, 4).toString()).toBe('PNG');
  });

  testOnce('events are numbered from 1 without gaps and end with done, as NDJSON and as SSE', async () => {
    const ndjson: ExecutionEvent[] = [];
    for await (const event of readEvents(await stream('for i in range(5): print(i, flush=True)'))) ndjson.push(event);
    expect(ndjson.map((event) => event.seq)).toEqual(ndjson.map((_, index) => index + 1));
    expect(ndjson[0]?.type).toBe('started');
    expect(ndjson.at(-1)).toMatchObject({ type: 'done', status: 'ok' });

    const response = await stream('print("hello")', 'text/event-stream');
    expect(response.headers.get('content-type')).toContain('text/event-stream');
    const blocks = (await response.text())
      .trim()
      .split('\n\n')
      .map((block) => block.split('\n'));
    expect(blocks.map(([id]) => id)).toEqual(blocks.map((_, index) => `id: ${index + 1}`));
    expect(blocks[1]?.[1]).toBe('event: stdout');
    const events = blocks.map(([, , data]): ExecutionEvent => JSON.parse(data?.slice('data: '.length) ?? ''));
    expect(events[1]).toMatchObject({ seq: 2, type: 'stdout' });
    // The end of a line may arrive separately.
    expect(streamOf(events, 'stdout')).toBe('hello\n');
  });

  test('output lines are streamed while the code still runs', async () => {
    const code =
      'import os, time\nfor i in range(3):\n  print(f"{i}\\n", end="")\n  while not os.path.exists(f"go{i}"): time.sleep(0.02)';
    const lines: string[] = [];
    for await (const event of readEvents(await stream(code, 'application/x-ndjson', { timeoutSeconds: 20 }))) {
      if (event.type === 'done') expect(event.status).toBe('ok');
      if (event.type !== 'stdout') continue;
      lines.push(event.text);
      // The code waits for this file, and so continues only after its line has arrived.
      await gateway.call(`/v1/boxes/${box.id}/files/go${event.text.trim()}`, { method: 'PUT', body: '' });
    }
    expect(lines).toEqual(['0\n', '1\n', '2\n']);
  });

  testOnce('a reader that disconnects gets the rest by ?after=, without loss or repetition', async () => {
    const code = 'import time\nfor i in range(8):\n  print("line", i)\n  time.sleep(0.2)';
    const response = await stream(code);
    const events: ExecutionEvent[] = [];
    for await (const event of readEvents(response)) {
      events.push(event);
      if (streamOf(events, 'stdout').split('\n').length > 3) break;
    }
    const location = response.headers.get('content-location');
    const first = events[0];
    expect(first?.type === 'started' && path(`/${first.execution}`)).toBe(location);
    const resumed = await gateway.call(`${location}/events?after=${events.at(-1)?.seq}`);
    for await (const event of readEvents(resumed)) events.push(event);
    expect(events.map((event) => event.seq)).toEqual(events.map((_, index) => index + 1));
    expect(streamOf(events, 'stdout')).toBe(Array.from({ length: 8 }, (_, i) => `line ${i}\n`).join(''));
    expect(events.at(-1)).toMatchObject({ type: 'done', status: 'ok' });
    const again = await Array.fromAsync(readEvents(await gateway.call(`${location}/events`)));
    expect(again[0]).toEqual(first);
    const read = await gateway.get<Execution>(location ?? '');
    expect(read.body).toMatchObject({ status: 'ok', stateLost: false });
  });

  testOnce('Last-Event-ID resumes as ?after= does', async () => {
    const done = await gateway.run(box.id, 'for i in range(3): print(i)');
    const response = await gateway.call(path(`/${done.id}/events`), {
      headers: { accept: 'text/event-stream', 'last-event-id': String(done.lastSeq - 1) },
    });
    expect(await response.text()).toMatch(/^id: \d+\nevent: done\n/);
    const ended = () => gateway.call(path(`/${done.id}/events?after=${done.lastSeq}`));
    await eventually(async () => (await ended()).status === 204);
  });

  testOnce('a detached execution returns 202 at once and can be followed to its end', async () => {
    const started = await gateway.post<Execution>(path(), {
      code: 'import time; time.sleep(1); print("late")',
      detach: true,
    });
    expect(started.status).toBe(202);
    expect(started.body.status).toBe('running');
    const events: ExecutionEvent[] = [];
    for await (const event of readEvents(await gateway.call(started.headers.get('location') ?? ''))) events.push(event);
    expect(streamOf(events, 'stdout')).toBe('late\n');
    await eventually(async () => (await gateway.get<Execution>(path(`/${started.body.id}`))).body.status === 'ok');
  });

  test('input() requests input and receives it', async () => {
    const events: ExecutionEvent[] = [];
    const response = await stream('name = input("Who? ")\nprint("Hello", name)');
    for await (const event of readEvents(response)) {
      events.push(event);
      if (event.type !== 'input_request') continue;
      expect(event).toMatchObject({ prompt: 'Who? ', password: false });
      const sent = await gateway.post(`${response.headers.get('content-location')}/input`, { text: 'Ada' });
      expect(sent.status).toBe(204);
    }
    expect(streamOf(events, 'stdout')).toContain('Hello Ada\n');
  });

  test('an interrupt ends a run and keeps the variables', async () => {
    await gateway.run(box.id, 'kept = 7');
    const started = await gateway.post<Execution>(path(), { code: 'while True: pass', detach: true });
    await eventually(async () => (await gateway.get<Execution>(path(`/${started.body.id}`))).body.lastSeq >= 1);
    const waiting = await gateway.post<Execution>(path(), { code: 'kept', detach: true });
    const list = (await gateway.get<{ items: Execution[] }>(path())).body.items;
    const { body: running } = await gateway.get<Execution>(path(`/${started.body.id}`));
    for (const shown of [running, list.find(({ id }) => id === started.body.id)]) {
      expect(shown).toMatchObject({ status: 'running', language: 'python', lastSeq: 1, finishedAt: null });
      expect(shown?.context).toEqual(expect.any(String));
      expect(shown?.executionCount).toEqual(expect.any(Number));
      expect(Date.parse(shown?.startedAt ?? '')).toBeGreaterThanOrEqual(Date.parse(started.body.createdAt));
    }
    expect(list[0]).toMatchObject({ id: waiting.body.id, status: 'running', startedAt: null });
    expect((await gateway.post(path(`/${started.body.id}/interrupt`), {})).status).toBe(202);
    const ended = await eventually(async () => {
      const { body } = await gateway.get<Execution>(path(`/${started.body.id}`));
      return body.status !== 'running' && body;
    });
    expect(ended).toMatchObject({ status: 'interrupted', stateLost: false, startedAt: running.startedAt });
    expect((await gateway.run(box.id, 'kept')).text).toBe('7');
  });

  test('code can use top-level await, and a time limit or interrupt there keeps the variables', async () => {
    const code = 'import asyncio\nkept = await asyncio.gather(asyncio.sleep(0.01, 1), asyncio.sleep(0, 2))\nkept';
    expect(await gateway.run(box.id, code)).toMatchObject({ status: 'ok', text: '[1, 2]' });
    const late = await gateway.run(box.id, 'await asyncio.sleep(600)', { timeoutSeconds: 0.5 });
    expect(late).toMatchObject({ status: 'timeout', cause: { stage: 'interrupt' }, stateLost: false });
    const response = await stream('print("waits")\nawait asyncio.sleep(600)');
    const events: ExecutionEvent[] = [];
    for await (const event of readEvents(response)) {
      events.push(event);
      if (event.type === 'stdout') await gateway.post(`${response.headers.get('content-location')}/interrupt`, {});
    }
    expect(events.at(-1)).toMatchObject({ status: 'interrupted', stateLost: false });
    expect((await gateway.run(box.id, 'kept')).text).toBe('[1, 2]');
  });

  testOnce('output of a thread of an earlier run is marked with that run', async () => {
    const begin =
      'import threading\ngo = threading.Event()\nlate = threading.Thread(target=lambda: (go.wait(), print("late")))';
    const first = await gateway.run(box.id, `${begin}\nlate.start()`);
    const second = await gateway.run(box.id, 'print("mine"); go.set(); late.join(); print("mine")');
    const texts = second.outputs?.map((event) => event.type === 'stdout' && [event.text, event.origin]);
    expect(texts).toEqual([
      ['mine\n', undefined],
      ['late\n', first.id],
      ['mine\n', undefined],
    ]);
  });

  test('the run of a box that dies is lost, in its stream and in its record', async () => {
    const doomed = await gateway.createBox();
    const code =
      'import os, signal, time\nprint("alive", flush=True)\ntime.sleep(0.3)\nos.kill(os.getppid(), signal.SIGKILL)\ntime.sleep(9)';
    const ended = await gateway.run(doomed.id, code);
    expect(ended.status).toBe('lost');
    expect(ended.stateLost).toBe(true);
    const { body } = await gateway.get<Box>(`/v1/boxes/${doomed.id}`);
    expect(body).toMatchObject({ state: 'lost', cause: { code: 'instance_lost' }, continuity: 'lost' });
    const read = await gateway.get<Execution>(`/v1/boxes/${doomed.id}/executions/${ended.id}`);
    expect(read.body).toMatchObject({ status: 'lost', stateLost: true });
    expect((await gateway.post(`/v1/boxes/${doomed.id}/executions`, { code: '1' })).status).toBe(410);
  });

  testOnce('the events of a run whose box is being ended report the recorded end instead of a loss', async () => {
    const ending = await gateway.createBox();
    const { id } = await gateway.client.executions.start(ending.id, { code: 'input()' });
    const store = await openStore(await databaseUrl(gateway.dataDir), () => {});
    await store.boxes.end(ending.id, 'deleting', { code: 'deleted', detail: '' });
    expect((await gateway.post(`/v1/boxes/${ending.id}/executions`, { code: '1' })).status).toBe(410);
    const first = gateway.client.executions.events(ending.id, id).next();
    for (const _ of [1, 2, 3]) await gateway.get(`/v1/boxes/${ending.id}`);
    const done = { seq: 3, type: 'done', status: 'ok', durationMs: 1, stateLost: false } as const;
    await store.executions.finish([{ id, boxId: ending.id, done, context: null, language: null }]);
    await store.close();
    expect((await first).value).toMatchObject({ type: 'done', status: 'ok' });
    await gateway.client.boxes.delete(ending.id);
  });

  test('JavaScript, TypeScript and Bash see the same files as Python', async () => {
    await gateway.run(box.id, 'open("shared.txt", "w").write("from python")');
    const js =
      'import { readFile } from "node:fs/promises";\nconst text = await readFile("shared.txt", "utf8");\ntext.toUpperCase()';
    expect((await gateway.run(box.id, js, { language: 'javascript' })).text).toBe("'FROM PYTHON'");
    expect((await gateway.run(box.id, 'const n: number = 20; n * 2', { language: 'typescript' })).text).toBe('40');
    const bash = await gateway.run(box.id, 'cat shared.txt; echo oops >&2', { language: 'bash' });
    expect(streamOf(bash.outputs, 'stdout')).toBe('from python');
    expect(streamOf(bash.outputs, 'stderr')).toBe('oops\n');
  });

  const sendCode = async (to: string, type: string, body: string, headers: Record<string, string> = {}) => {
    const response = await gateway.call(to, { method: 'POST', body, headers: { 'content-type': type, ...headers } });
    return { status: response.status, body: (await response.json()) as Record<string, unknown> };
  };

  testOnce('a request body of code runs verbatim, in the language of its Content-Type', async () => {
    const python = 'text = "quotes \' and\\ttabs"\nprint(text)\nlen(text)\n';
    const ran = await sendCode(path(), 'text/x-python; charset=utf-8', python);
    expect(ran).toMatchObject({ status: 200, body: { status: 'ok', language: 'python', text: '17' } });
    for (const [type, language, code] of [
      ['text/javascript', 'javascript', '(() => "4" + 2)()'],
      ['application/typescript', 'typescript', 'const n: number = 42; n'],
      ['application/x-sh', 'bash', "echo '42'\n"],
    ] as const)
      expect(await sendCode(path(), type, code)).toMatchObject({ status: 200, body: { status: 'ok', language } });
    const [pointer, known] = ['/language', expect.stringContaining('it has python, javascript')];
    for (const to of [path(), '/v1/run'])
      expect(await sendCode(to, 'text/x-scheme', '(+ 40 2)')).toMatchObject({
        status: 400,
        body: { errors: [{ pointer, detail: known }] },
      });
    const once = await sendCode('/v1/run?timeoutSeconds=30', 'text/x-python', '6 * 7');
    expect(once).toMatchObject({ status: 200, body: { status: 'ok', text: '42' } });
  });

  testOnce('with a body of code the query carries the other fields, which are validated alike', async () => {
    const late = await sendCode(path('?timeoutSeconds=0.3'), 'text/x-python', 'import time\ntime.sleep(30)');
    expect(late.body).toMatchObject({ status: 'timeout' });
    const created = await gateway.post(`/v1/boxes/${box.id}/contexts`, { language: 'javascript' });
    const { id } = created.body as { id: string };
    const inContext = await sendCode(path(`?context=${id}`), 'text/javascript', '40 + 2');
    expect(inContext.body).toMatchObject({ status: 'ok', context: id, text: '42' });
    expect((await sendCode(path('?detach=true'), 'text/x-python', '1')).status).toBe(202);
    const faultOf = async (query: string, type: string, body: string) => (await sendCode(path(query), type, body)).body;
    expect(await faultOf('?timeoutSeconds=soon', 'text/x-python', '1')).toMatchObject({
      errors: [{ pointer: '/query/timeoutSeconds' }],
    });
    expect(await faultOf('?timeout=1', 'text/x-python', '1')).toMatchObject({
      errors: [{ pointer: '/query/timeout', detail: 'is not a known key; did you mean timeoutSeconds?' }],
    });
    expect(await faultOf('?timeoutSeconds=1', 'application/json', '{"code": "1"}')).toMatchObject({
      errors: [{ pointer: '/query/timeoutSeconds', detail: expect.stringContaining('is a key of the JSON body') }],
    });
    expect(await faultOf('', 'application/json', 'print(1)')).toMatchObject({
      detail: expect.stringContaining('text/x-python'),
    });
  });

  testOnce('the Idempotency-Key of a body of code covers its language and query too', async () => {
    const key = { 'idempotency-key': `code-${box.id}` };
    const first = await sendCode(path('?timeoutSeconds=30'), 'text/x-python', 'import os; os.urandom(8)', key);
    expect(await sendCode(path('?timeoutSeconds=30'), 'text/x-python', 'import os; os.urandom(8)', key)).toEqual(first);
    const other = await sendCode(path('?timeoutSeconds=20'), 'text/x-python', 'import os; os.urandom(8)', key);
    expect(other).toMatchObject({ status: 422, body: { code: 'idempotency_mismatch' } });
  });

  testOnce('env applies to one run only', async () => {
    const code = 'import os; os.environ.get("GREETING")';
    expect((await gateway.run(box.id, code, { env: { GREETING: "it's $(id)" } })).text).toBe('"it\'s $(id)"');
    expect((await gateway.run(box.id, code)).text).toBeNull();
  });

  test('a run reports the files that it created, modified and deleted', async () => {
    await gateway.run(box.id, 'open("old.txt","w").write("a"); open("gone.txt","w").write("b")');
    const { files } = await gateway.run(
      box.id,
      'import os\nopen("new.txt","w").write("c"); open("old.txt","a").write("d"); os.remove("gone.txt")',
    );
    expect(files).toMatchObject({ created: ['new.txt'], modified: ['old.txt'], deleted: ['gone.txt'] });
  });

  testOnce('contexts are isolated from each other; a restart clears one, a delete removes it', async () => {
    const contexts = `/v1/boxes/${box.id}/contexts`;
    const made = await gateway.post<{ id: string; language: string }>(contexts, { language: 'python' });
    expect(made.status).toBe(201);
    const there = { context: made.body.id };
    await gateway.run(box.id, 'only_here = 1', there);
    expect((await gateway.run(box.id, 'only_here')).error?.name).toBe('NameError');
    expect((await gateway.post(`${contexts}/${made.body.id}/restart`, {})).status).toBe(200);
    expect((await gateway.run(box.id, 'only_here', there)).error?.name).toBe('NameError');
    expect((await gateway.call(`${contexts}/${made.body.id}`, { method: 'DELETE' })).status).toBe(204);
    const gone = await gateway.post(path(), { code: '1', ...there });
    expect(gone.status).toBe(404);
  });

  test('output beyond its limit is truncated in the middle, and the dropped bytes are counted', async () => {
    const much = await gateway.run(box.id, 'for i in range(20_000): print(str(i) * 200)', { timeoutSeconds: 60 });
    const cut = much.outputs?.find((event) => event.type === 'truncated');
    expect(cut?.droppedBytes).toBeGreaterThan(1_000_000);
    const text = streamOf(much.outputs, 'stdout');
    expect(text.startsWith('0000')).toBe(true);
    expect(text.trimEnd().endsWith('19999')).toBe(true);
    expect(Buffer.byteLength(text)).toBeLessThan(9 * 1024 * 1024);
  });

  testOnce('executions are listed newest first, in pages', async () => {
    type PageOf = { items: Execution[]; nextCursor: string | null };
    const first = (await gateway.get<PageOf>(`${path()}?limit=2`)).body;
    expect(first.items).toHaveLength(2);
    const second = (await gateway.get<PageOf>(`${path()}?limit=2&cursor=${first.nextCursor}`)).body;
    const times = [...first.items, ...second.items].map((item) => Date.parse(item.createdAt));
    expect(times).toEqual([...times].sort((a, b) => b - a));
    expect(new Set([...first.items, ...second.items].map((item) => item.id)).size).toBe(4);
  });
});
