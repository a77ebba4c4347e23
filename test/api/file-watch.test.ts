import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type Box, type Problem, type WatchEvent, watchEventSchema } from '#contract';
import { anyDriver, drivers, eventually, type GatewayProcess, startGatewayProcess } from './harness.ts';

describe.each(drivers)('watching files on the %s driver', (driver) => {
  // The reports of the box depend on its kernel and disk. How the gateway forwards them does not, so that is tested once.
  const testOnce = anyDriver.includes(driver) ? test : () => {};
  let gateway: GatewayProcess;
  let box: Box;
  beforeAll(async () => {
    gateway = await startGatewayProcess(driver);
    box = await gateway.createBox();
  });
  afterAll(() => gateway?.dispose());

  const at = (path: string) => `/v1/boxes/${box.id}/files/${path}`;
  const put = (path: string, body: string) => gateway.call(at(path), { method: 'PUT', body });
  const shell = async (command: string, id = box.id) => {
    const { body } = await gateway.post<{ status: string }>(`/v1/boxes/${id}/commands`, { command });
    expect(body.status).toBe('ok');
  };

  /** Reads a watch until it ends or `leave` is called; `ended` is undefined while it continues. */
  const watch = async (query = '', headers: Record<string, string> = {}, id = box.id) => {
    const leave = new AbortController();
    const url = `/v1/boxes/${id}/files:watch${query}`;
    const response = await gateway.call(url, { headers, signal: leave.signal });
    const events: WatchEvent[] = [];
    const state = { events, ended: undefined as 'closed' | 'broken' | undefined, leave: () => leave.abort(), response };
    const read = async () => {
      let pending = '';
      for await (const chunk of response.body?.pipeThrough(new TextDecoderStream() as never) ?? []) {
        const lines = (pending + chunk).split('\n');
        pending = lines.pop() ?? '';
        for (const line of lines) {
          const json = line.startsWith('data: ') ? line.slice(6) : line;
          if (json.startsWith('{')) events.push(watchEventSchema.parse(JSON.parse(json)));
        }
      }
    };
    read().then(
      () => {
        state.ended = 'closed';
      },
      () => {
        state.ended = 'broken';
      },
    );
    await eventually(async () => events.length > 0);
    return state;
  };
  const changesOf = (events: WatchEvent[]) =>
    events.flatMap((event) =>
      'path' in event ? [[event.type, event.path, ...('from' in event ? [event.from] : [])]] : [],
    );
  const until = (events: WatchEvent[], ...change: string[]) =>
    eventually(async () => changesOf(events).some((one) => one.join('\0') === change.join('\0')));

  test('create, write, rename and remove are reported with versions without gaps', async () => {
    const { events, leave } = await watch();
    expect(events[0]?.type).toBe('ready');
    await put('w/a.txt', '1');
    await until(events, 'create', 'w/a.txt');
    await put('w/a.txt', '22');
    await until(events, 'write', 'w/a.txt');
    await gateway.post(`/v1/boxes/${box.id}/files`, { op: 'move', from: 'w/a.txt', to: 'w/b.txt' });
    await until(events, 'rename', 'w/b.txt', 'w/a.txt');
    await gateway.call(at('w'), { method: 'DELETE' });
    await until(events, 'remove', 'w');
    leave();
    expect(changesOf(events)).toEqual([
      ['create', 'w'],
      ['create', 'w/a.txt'],
      ['write', 'w/a.txt'],
      ['rename', 'w/b.txt', 'w/a.txt'],
      ['remove', 'w/b.txt'],
      ['remove', 'w'],
    ]);
    const first = events[0]?.version ?? 0;
    expect(events.map(({ version }) => version)).toEqual(events.map((_, index) => first + index));
    expect(events.find((event) => event.type === 'write')).toMatchObject({ entry: { sizeBytes: 2, path: 'w/a.txt' } });
  });

  testOnce('a watch can be resumed after a SIGKILL of the gateway, and misses nothing', async () => {
    const before = await watch('?path=&recursive=true');
    await put('one', '1');
    await until(before.events, 'create', 'one');
    const version = before.events.at(-1)?.version ?? 0;
    // These changes happen while no gateway runs.
    await gateway.post(`/v1/boxes/${box.id}/commands`, { command: 'sleep 1; touch two; mv one three', detach: true });
    await gateway.kill('SIGKILL');
    await eventually(async () => before.ended !== undefined);
    await new Promise((next) => setTimeout(next, 1500));
    await gateway.restart();
    const after = await watch(`?after=${version}`);
    await until(after.events, 'rename', 'three', 'one');
    expect(changesOf(after.events)).toContainEqual(['create', 'two']);
    expect(after.events[0]).toMatchObject({ type: 'ready', version });
    after.leave();
    const sse = await watch('', { accept: 'text/event-stream', 'last-event-id': String(version) });
    expect(sse.response.headers.get('content-type')).toContain('text/event-stream');
    await until(sse.events, 'rename', 'three', 'one');
    sse.leave();
  });

  testOnce('a watch from an unknown version begins with a reset', async () => {
    const { events, leave } = await watch('?after=999999999');
    await eventually(async () => events.length > 1);
    expect(events[1]).toMatchObject({ type: 'reset', reason: 'forgotten', version: events[0]?.version });
    leave();
  });

  test('10,000 changes at once are all reported', async () => {
    const { events, leave } = await watch('?path=&recursive=true');
    await shell('mkdir many; cd many; seq 10000 | xargs touch');
    const created = () => new Set(changesOf(events).flatMap(([type, path]) => (type === 'create' ? [path] : [])));
    await eventually(async () => created().size >= 10_001, 30_000);
    const first = events[1]?.version ?? 0;
    expect(events.slice(1).map(({ version }) => version)).toEqual(events.slice(1).map((_, index) => first + index));
    await shell('rm -r many');
    await until(events, 'remove', 'many');
    leave();
  });

  testOnce('files of any name are reported, and only those in the watched scope', async () => {
    await shell('mkdir -p part/deep');
    const part = await watch('?path=part&recursive=false');
    await shell(`touch part/deep/x outside; cd part; touch $'new\\nline' 'q"u' 😀 $'raw\\xff'`);
    for (const name of ['new\nline', 'q"u', '😀', 'raw\ufffd']) await until(part.events, 'create', `part/${name}`);
    // A scan between the creation of a file and the change of its time also reports a write.
    expect(new Set(changesOf(part.events).map(([, path]) => path)).size).toBe(4);
    part.leave();
  });

  test.each([
    ['?path=none', 404, '/query/path'],
    ['?path=../x', 400, '/query/path'],
    ['?recursive=maybe', 400, '/query/recursive'],
    ['?after=-1', 400, '/query/after'],
    ['?other=1', 400, '/query/other'],
  ])('%s is refused with a pointer to the parameter', async (query, status, pointer) => {
    const refused = await gateway.get<Problem>(`/v1/boxes/${box.id}/files:watch${query}`);
    expect([refused.status, refused.body.errors?.[0]?.pointer]).toEqual([status, pointer]);
  });

  test('a watch ends with its box and reports that as its cause', async () => {
    const doomed = await gateway.createBox();
    const { events, ...state } = await watch('', {}, doomed.id);
    await gateway.call(`/v1/boxes/${doomed.id}`, { method: 'DELETE' });
    await eventually(async () => events.at(-1)?.type === 'end');
    expect(events.at(-1)).toMatchObject({ type: 'end', cause: { code: 'box_deleted' } });
    expect(state.response.status).toBe(200);
    expect((await gateway.call(`/v1/boxes/${doomed.id}/files:watch`)).status).toBe(410);
    expect((await gateway.call(`/v1/boxes/${box.id}/files:other`)).status).toBe(404);
  });
});
