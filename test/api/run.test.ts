import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type Box, type Execution, type Problem, type Run, type RunEvent, runEventSchema } from '#contract';
import { anyDriver, collect, eventually, type RunningGateway, startGateway } from './harness.ts';

// The outcome does not depend on the driver; `commands.test.ts` has the runs whose outcome does.
describe.each(anyDriver)('one call on the %s driver', (driver) => {
  let gateway: RunningGateway;
  beforeAll(async () => {
    gateway = await startGateway(driver);
  });
  afterAll(() => gateway?.dispose());

  const run = async (body: Record<string, unknown>) => (await gateway.post<Run>('/v1/run', body)).body;
  const open = (body: unknown, headers: Record<string, string> = {}, signal?: AbortSignal) =>
    gateway.call('/v1/run', {
      method: 'POST',
      headers: { accept: 'application/x-ndjson', ...headers },
      body: JSON.stringify(body),
      ...(signal && { signal }),
    });
  const parse = (text: string): RunEvent[] =>
    text
      .split('\n')
      .filter((line) => line !== '')
      .map((line) => runEventSchema.parse(JSON.parse(line)));
  const boxes = async () => (await gateway.get<{ items: Box[] }>('/v1/boxes')).body.items;
  const noBoxes = () => eventually(async () => (await boxes()).length === 0);

  test('a run is streamed as an execution is, then its files follow, and its box is gone', async () => {
    const code = 'print("a", flush=True)\nopen("new.txt", "w").write("hi")\n6 * 7';
    const events = parse(await (await open({ code })).text());
    expect(events.map(({ type }) => type)).toEqual(['started', 'stdout', 'result', 'done', 'file', 'end']);
    expect(events.map(({ seq }) => seq)).toEqual([1, 2, 3, 4, 5, 6]);
    expect(events[0]).not.toHaveProperty('execution');
    expect(events[4]).toMatchObject({ path: 'new.txt', change: 'created', sizeBytes: 2, base64: 'aGk=' });
    expect(events[5]).toEqual({ seq: 6, type: 'end', status: 'ok' });
    const sse = await open({ code: '1', returnFiles: 'none' }, { accept: 'text/event-stream' });
    expect(await sse.text()).toMatch(
      /^id: 1\nevent: started\n.*event: end\ndata: {"seq":4,"type":"end","status":"ok"}\n\n$/s,
    );
    await noBoxes();
  });

  test('output of a run arrives while it runs', async () => {
    const seen: RunEvent[] = [];
    for await (const event of gateway.client.streamRun({
      code: 'print(1, flush=True)\nimport time\ntime.sleep(600)',
    })) {
      seen.push(event);
      if (event.type === 'stdout') break;
    }
    expect(seen.at(-1)).toMatchObject({ type: 'stdout', text: '1\n' });
    await noBoxes();
  });

  test('steps share one box with the files, and the first that fails is the last', async () => {
    const body = {
      files: [{ path: 'in/table.csv', text: 'x\n1\n2\n' }],
      steps: [
        { code: 'import csv, os\nrows = list(csv.DictReader(open("in/table.csv")))' },
        { command: 'cat > note; wc -l < table.csv; echo $MODE', stdin: 'one', cwd: 'in', env: { MODE: 'fast' } },
        { argv: ['cat', 'in/note'] },
        { code: 'print(len(rows))\nopen("in/note", "a").write("!")\nopen("out", "w").close()\n1/0' },
        { command: 'touch never' },
      ],
    };
    const whole = await run(body);
    expect(whole.steps?.map(({ status }) => status)).toEqual(['ok', 'ok', 'ok', 'error']);
    expect(whole.steps?.map(({ stdout }) => stdout)).toEqual(['', '3\nfast\n', 'one', '2\n']);
    expect(whole).toMatchObject({ status: 'error', stdout: '2\n', error: { name: 'ZeroDivisionError' } });
    expect(whole.files.map(({ path, change }) => [path, change])).toEqual([
      ['in/note', 'created'],
      ['out', 'created'],
    ]);
    expect(Buffer.from(whole.files[0]?.base64 ?? '', 'base64').toString()).toBe('one!');

    const events = parse(
      await (await open({ steps: [{ code: 'print(1)' }, { command: 'exit 3' }, { code: '2' }] })).text(),
    );
    expect(events.map((event) => [event.type, 'step' in event ? event.step : null])).toEqual([
      ['started', 0],
      ['stdout', 0],
      ['done', 0],
      ['started', 1],
      ['done', 1],
      ['end', null],
    ]);
    expect(events.map(({ seq }) => seq)).toEqual([1, 2, 3, 4, 5, 6]);
    expect(events.at(-1)).toMatchObject({ status: 'error' });
  });

  test('files are returned with their content, as names, or not at all', async () => {
    const code = 'open("new.txt", "w").write("hi")';
    const file = { path: 'new.txt', change: 'created', sizeBytes: 2 };
    expect((await run({ code })).files).toEqual([{ ...file, base64: 'aGk=' }]);
    expect((await run({ code, returnFiles: 'names' })).files).toEqual([{ ...file, base64: null }]);
    expect((await run({ code, returnFiles: 'none' })).files).toEqual([]);
  });

  test('a client that leaves ends the box of its run', async () => {
    const code = 'import time\ntime.sleep(600)';
    for (const accept of ['application/json', 'application/x-ndjson']) {
      const leave = new AbortController();
      const response = open({ code, timeoutSeconds: 900 }, { accept }, leave.signal).then((it) => it.text());
      await eventually(async () => (await boxes()).some(({ state }) => state === 'ready'));
      leave.abort();
      await expect(response).rejects.toThrow();
      await noBoxes();
    }
  });

  test('with an Idempotency-Key a run is done once, goes on without its client, and is answered or streamed again', async () => {
    const code = 'import time, uuid\nprint(uuid.uuid4(), flush=True)\ntime.sleep(3)';
    for (const accept of ['application/json', 'application/x-ndjson']) {
      const leave = new AbortController();
      const headers = { accept, 'idempotency-key': `left-${accept}` };
      const first = open({ code }, headers, leave.signal).then((it) => it.text());
      await eventually(async () => (await boxes()).some(({ state }) => state === 'ready'));
      leave.abort();
      await expect(first).rejects.toThrow();
      const repeat = async () => {
        const again = await open({ code }, headers);
        return again.status === 200 && ([again.headers.get('content-type'), await again.text()] as const);
      };
      const [type, text] = await eventually(repeat);
      expect(type).toMatch(accept);
      expect(text).toMatch(/[0-9a-f-]{36}/);
      expect(await repeat()).toEqual([type, text]);
      expect(await boxes()).toEqual([]);
    }
    const headers = { 'idempotency-key': 'streamed' };
    const [sent, again] = [await (await open({ code }, headers)).text(), await (await open({ code }, headers)).text()];
    expect(parse(sent).at(-1)?.type).toBe('end');
    expect(again).toBe(sent);
  });

  test('a run that makes no sense is refused with a pointer to the field, and starts no box', async () => {
    const faults = async (body: unknown) =>
      (await gateway.post<Problem>('/v1/run', body)).body.errors?.map(({ pointer }) => pointer);
    const steps = [{ code: '1' }];
    expect(await faults({})).toEqual(['/code']);
    expect(await faults({ steps: [] })).toEqual(['/steps']);
    expect(await faults({ steps: Array.from({ length: 33 }, () => ({ code: '1' })) })).toEqual(['/steps']);
    expect(await faults({ steps, code: '1' })).toEqual(['/code']);
    expect(await faults({ steps, timeoutSeconds: 5 })).toEqual(['/timeoutSeconds']);
    expect(await faults({ steps: [{}] })).toEqual(['/steps/0']);
    expect(await faults({ steps: [{ code: '1', command: 'ls' }] })).toEqual(['/steps/0']);
    expect(await faults({ steps: [...steps, { code: '1', stdin: '' }] })).toEqual(['/steps/1/stdin']);
    expect(await faults({ steps: [{ command: 'ls', language: 'bash' }] })).toEqual(['/steps/0/language']);
    expect(await faults({ code: '1', stdin: '', autoInstall: true })).toEqual(['/autoInstall']);
    expect(await faults({ code: '1', returnFiles: 'all' })).toEqual(['/returnFiles']);
    expect(await faults({ steps, files: [{ path: '../x', text: '' }] })).toEqual(['/files/0/path']);
    await run({ code: '1' });
    expect(await faults({ steps: [...steps, { code: '1', language: 'cobol' }] })).toEqual(['/steps/1/language']);
    expect(await boxes()).toEqual([]);
  });

  test('an execution in a box gets its files before its code runs', async () => {
    const box = await gateway.createBox();
    const files = [
      { path: 'sub/a.txt', text: 'é' },
      { path: 'b.bin', base64: 'AAE=' },
    ];
    const path = `/v1/boxes/${box.id}/executions`;
    const code = 'open("sub/a.txt").read(), open("b.bin", "rb").read()';
    const { body } = await gateway.post<Execution>(path, { code, files });
    expect(body).toMatchObject({ status: 'ok', text: "('é', b'\\x00\\x01')", files: { created: [], modified: [] } });
    const refused = async (given: unknown[]) => {
      const { status, body } = await gateway.post<Problem>(path, { code: 'open("ran", "w")', files: given });
      return [status, body.errors?.[0]?.pointer];
    };
    expect(
      await refused([
        { path: 'x', text: '' },
        { path: 'b.bin/c', text: '' },
      ]),
    ).toEqual([400, '/files/1/path']);
    expect(await refused([{ path: 'x', url: 'https://example.org/x' }])).toEqual([400, '/files/0/url']);
    expect(await refused([{ path: '/etc/passwd', text: '' }])).toEqual([400, '/files/0/path']);
    expect((await gateway.call(`/v1/boxes/${box.id}/files/ran`)).status).toBe(404);
    const session = await gateway.client.session(box.id);
    const over = await session.execute({ code: 'open("c").read()', files: [{ path: 'c', text: 'by socket' }] });
    const events = await collect(over);
    session.close();
    expect(events.find(({ type }) => type === 'result')).toMatchObject({ mime: { 'text/plain': "'by socket'" } });
    await gateway.client.boxes.delete(box.id);
  });
});
