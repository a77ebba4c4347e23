import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type Box, type Command, createClient, type Execution, type Problem, type Run } from '#contract';
import { anyDriver, eventually, type RunningGateway, readEvents, refusal, startGateway } from './harness.ts';

const maxKeys = 40;

describe.each(anyDriver)('idempotency on the %s driver', (driver) => {
  let gateway: RunningGateway;
  let box: Box;
  beforeAll(async () => {
    gateway = await startGateway(driver, {
      CODEBOX_IDEMPOTENCY_KEYS: String(maxKeys),
      CODEBOX_IDEMPOTENCY_MB: '1',
    });
    box = await gateway.createBox();
  });
  afterAll(() => gateway?.dispose());

  const remove = (id: string) => gateway.call(`/v1/boxes/${id}`, { method: 'DELETE' });
  const path = (rest: string) => `/v1/boxes/${box.id}/${rest}`;
  const keyed = (key: string) => ({ 'idempotency-key': key });
  const readBack = async (name: string) => (await gateway.run(box.id, `open(${JSON.stringify(name)}).read()`)).text;

  test('requests with the same Idempotency-Key create one box and run code once', async () => {
    const key = { 'idempotency-key': 'create-once' };
    const first = await gateway.post<Box>('/v1/boxes', { user: 'k' }, key);
    const again = await gateway.post<Box>('/v1/boxes', { user: 'k' }, key);
    expect([first.status, again.status, again.body.id]).toEqual([201, 201, first.body.id]);
    expect(again.headers.get('idempotency-replayed')).toBe('true');
    expect((await gateway.post('/v1/boxes', { user: 'other' }, key)).status).toBe(422);
    await gateway.run(first.body.id, 'open("count","a").write("x")');
    const path = `/v1/boxes/${first.body.id}/executions`;
    const body = { code: 'import time; time.sleep(0.5); open("count","a").write("y")' };
    const runs = await Promise.all(
      Array.from({ length: 8 }, () => gateway.post(path, body, { 'idempotency-key': 'run-once' })),
    );
    expect(runs.every(({ status }) => status === 200 || status === 409)).toBe(true);
    expect((await gateway.run(first.body.id, 'open("count").read()')).text).toBe("'xy'");
    await remove(first.body.id);
  });

  test('a refused execution releases its key', async () => {
    const missing = { code: '1', context: '00000000-0000-4000-8000-000000000000' };
    for (const _ of [1, 2]) {
      const refused = await gateway.post<Problem>(path('executions'), missing, keyed('refused'));
      expect([refused.status, refused.headers.get('idempotency-replayed')]).toEqual([404, null]);
    }
    const other = await gateway.post<Execution>(path('executions'), { code: '1+1' }, keyed('refused'));
    expect([other.status, other.body.text]).toEqual([200, '2']);
  });

  test('a repeated detached request gets the first response, during the run and afterwards', async () => {
    const bodies = { executions: { code: 'import time; time.sleep(2)' }, commands: { command: 'sleep 2' } };
    for (const [kind, body] of Object.entries(bodies)) {
      const send = () => gateway.post<{ id: string }>(path(kind), { ...body, detach: true }, keyed(`detached-${kind}`));
      const first = await send();
      const again = await send();
      expect([first.status, again.status, again.body.id]).toEqual([202, 202, first.body.id]);
      expect(again.headers.get('location')).toBe(first.headers.get('location'));
      const own = path(`${kind}/${first.body.id}`);
      await eventually(async () => (await gateway.get<Execution>(own)).body.status === 'ok');
      expect((await send()).status).toBe(202);
    }
  });

  test('a keyed command streams while it runs, and a repeated request joins its stream', async () => {
    const command = 'echo x >> joined; for i in 1 2 3; do echo $i; sleep 0.5; done';
    const stream = () =>
      gateway.call(path('commands'), {
        method: 'POST',
        headers: { accept: 'application/x-ndjson', ...keyed('joined') },
        body: JSON.stringify({ command }),
      });
    const first = await stream();
    const own = first.headers.get('content-location') ?? '';
    expect((await gateway.get<Command>(own)).body.status).toBe('running');
    const second = await stream();
    expect(second.headers.get('idempotency-replayed')).toBe('true');
    const [one, two] = await Promise.all([first.text(), second.text()]);
    expect(two.trim().split('\n')).toEqual(one.trim().split('\n'));
    const whole = await gateway.post<Command>(path('commands'), { command }, keyed('joined'));
    expect([whole.status, whole.body.stdout]).toEqual([200, '1\n2\n3\n']);
    expect(await readBack('joined')).toBe("'x\\n'");
  });

  test('the stored response of a command outlives its box', async () => {
    const short = await gateway.createBox();
    const send = () => gateway.post<Command>(`/v1/boxes/${short.id}/commands`, { command: 'echo kept' }, keyed('kept'));
    const first = await send();
    await remove(short.id);
    const again = await send();
    expect([again.status, again.body]).toEqual([200, first.body]);
  });

  test('a request that failed after it began is not repeated: its effect is unknown', async () => {
    const body = { language: 'bash', files: [{ path: 'a.sh', text: 'sleep 60' }], timeoutSeconds: 100 };
    const running = gateway.post<Run | Problem>('/v1/run', body, keyed('broken'));
    const inside = await eventually(async () => {
      const { items } = (await gateway.get<{ items: Box[] }>('/v1/boxes')).body;
      return items.find((item) => item.id !== box.id && item.state === 'ready');
    });
    const busy = await gateway.post<Problem>('/v1/run', body, keyed('broken'));
    expect([busy.status, busy.body.reason]).toEqual([409, 'key_in_use']);
    await remove(inside.id);
    const first = await running;
    const again = await gateway.post<Run | Problem>('/v1/run', body, keyed('broken'));
    if (first.status === 200) expect(again.body).toEqual(first.body);
    else expect([again.status, JSON.stringify(again.body)]).toEqual([409, expect.stringContaining('effect_unknown')]);
  });

  test('one key sent many times at once runs once, also after it was released', async () => {
    const bad = { code: '1', context: '00000000-0000-4000-8000-000000000000' };
    const send = () => gateway.post(path('executions'), bad, keyed('race'));
    const responses = await Promise.all(Array.from({ length: 30 }, send));
    expect(responses.map(({ status }) => status).filter((status) => status !== 404 && status !== 409)).toEqual([]);
    const count = { code: 'open("race","a").write("z")' };
    await Promise.all(Array.from({ length: 30 }, () => gateway.post(path('executions'), count, keyed('race-2'))));
    expect(await readBack('race')).toBe("'z'");
  });

  test('an execution streamed again with its key returns the same events', async () => {
    const stream = () =>
      gateway.call(path('executions'), {
        method: 'POST',
        headers: { accept: 'application/x-ndjson', ...keyed('streamed') },
        body: JSON.stringify({ code: 'for i in range(3): print(i, flush=True)' }),
      });
    const first = await Array.fromAsync(readEvents(await stream()));
    expect(await Array.fromAsync(readEvents(await stream()))).toEqual(first);
  });

  test('when the stored responses of a tenant are too large the oldest are dropped, and their requests are still not repeated', async () => {
    const body = { language: 'bash', code: 'head -c 330000 /dev/zero | tr "\\0" x; date +%N' };
    const send = (key: string) => gateway.post<Run | Problem>('/v1/run', body, keyed(key));
    await send('old');
    const young = await send('young');
    const gone = await eventually(async () => {
      const again = await send('old');
      return again.status === 409 && again;
    });
    expect(gone.headers.get('idempotency-replayed')).toBe('true');
    expect([gone.headers.get('retry-after'), (gone.body as Problem).detail]).toEqual([
      null,
      expect.stringContaining('is not done again'),
    ]);
    expect((await send('young')).body).toEqual(young.body);
  });

  test('a tenant with the maximum of stored keys gets 429 for a new one, and the stored keys still work', async () => {
    const key = await gateway.addTenant();
    const client = createClient({ url: gateway.url, key });
    const own = await client.boxes.create({}, { idempotencyKey: false });
    const code = 'open("n", "a").write("k")';
    const send = (idempotencyKey: string | false) => client.executions.run(own.id, { code }, { idempotencyKey });
    for (let n = 0; n < maxKeys; n++) await send(`key-${n}`);
    const refused = await refusal(send('one-more'));
    expect([refused.status, refused.code]).toEqual([429, 'too_many_requests']);
    expect(refused.retryAfterSeconds).toBeGreaterThan(0);
    expect((await send('key-0')).text).toBe('1');
    await send(false);
    const { text } = await client.executions.run(own.id, { code: 'len(open("n").read())' }, { idempotencyKey: false });
    expect(text).toBe(String(maxKeys + 1));
    await client.boxes.delete(own.id);
  });
});
