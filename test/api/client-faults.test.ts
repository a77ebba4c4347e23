import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type Box, type Client, createClient, type ExecutionEvent } from '#contract';
import { anyDriver, collect, type GatewayProcess, refusal, startGatewayProcess, streamOf } from './harness.ts';
import { type Link, openLink } from './link.ts';

describe.each(anyDriver)('faults around the client on the %s driver', (driver) => {
  let gateway: GatewayProcess;
  let link: Link;
  let client: Client;
  let box: Box;
  beforeAll(async () => {
    gateway = await startGatewayProcess(driver, { CODEBOX_MAX_BOXES: '3' });
    link = await openLink(gateway.url);
    client = createClient({ url: link.url, key: gateway.key });
    box = await client.boxes.create({ user: 'ada', metadata: { of: 'test' } });
  });
  afterAll(async () => {
    await link?.[Symbol.asyncDispose]();
    await gateway?.dispose();
  });

  test('a refused call throws an error with its code, status, faults and request id', async () => {
    const error = await refusal(client.executions.run(box.id, { code: 'x', timeoutSeconds: -1 }));
    expect(error).toMatchObject({ code: 'invalid_request', status: 400, retryAfterSeconds: undefined });
    expect(error.errors.map(({ pointer }) => pointer)).toEqual(['/timeoutSeconds']);
    expect(error.requestId).toMatch(/^[\w.-]+$/);
    const stranger = createClient({ url: gateway.url, key: 'cbx_wrong' });
    expect(await refusal(stranger.boxes.read(box.id))).toMatchObject({ code: 'unauthorized', status: 401 });
    expect(await refusal(collect(client.contexts.list('box-none')))).toMatchObject({ code: 'not_found' });
    const nowhere = createClient({ url: 'http://127.0.0.1:9' });
    expect(await refusal(nowhere.boxes.read('b'))).toMatchObject({ code: 'unavailable', status: undefined });
  });

  test('a response that does not come from a gateway is recognized', async () => {
    const docs = createClient({ url: `${gateway.url}/docs` });
    expect(await refusal(docs.boxes.read(box.id))).toMatchObject({ code: 'not_found', status: 404 });
    const page = createClient({ url: gateway.url, fetch: () => fetch(`${gateway.url}/docs`) });
    expect((await refusal(page.boxes.read(box.id))).code).toBe('internal');
  });

  test('a stream whose connection is cut resumes after the last event, without loss or repetition', async () => {
    const code = 'import time\nfor i in range(20):\n  print("line", i)\n  time.sleep(0.05)';
    const events: ExecutionEvent[] = [];
    const before = link.count();
    for await (const event of await client.executions.stream(box.id, { code })) {
      events.push(event);
      if (event.seq % 6 === 3) link.cut();
    }
    expect(events.map(({ seq }) => seq)).toEqual(events.map((_, index) => index + 1));
    expect(streamOf(events, 'stdout')).toBe(Array.from({ length: 20 }, (_, i) => `line ${i}\n`).join(''));
    expect(link.count() - before).toBeGreaterThan(2);
  });

  test('a watch whose connection is cut misses no change', async () => {
    const seen: string[] = [];
    let made = 0;
    const make = async () => {
      link.cut();
      // This request bypasses the link, so that the file changes while the watch is disconnected.
      await gateway.call(`/v1/boxes/${box.id}/files/watch-${made++}`, { method: 'PUT', body: 'x' });
    };
    for await (const event of client.files.watch(box.id)) {
      if (event.type === 'ready') await make();
      if (event.type !== 'create') continue;
      seen.push(event.path);
      if (seen.length === 4) break;
      await make();
    }
    expect(seen).toEqual(['watch-0', 'watch-1', 'watch-2', 'watch-3']);
  });

  test('a session reports that its connection is cut, and a new session resumes its runs', async () => {
    const session = await client.session(box.id);
    const stream = await session.execute({ code: 'import time\nfor i in range(10):\n  print(i)\n  time.sleep(0.1)' });
    const events: ExecutionEvent[] = [];
    const broken = (async () => {
      for await (const event of stream) {
        events.push(event);
        if (event.seq === 4) link.cut();
      }
    })();
    expect((await refusal(broken)).code).toBe('unavailable');
    const again = await client.session(box.id);
    events.push(...(await collect(await again.attach(stream.id, events.at(-1)?.seq))));
    again.close();
    expect(events.map(({ seq }) => seq)).toEqual(events.map((_, index) => index + 1));
    expect(streamOf(events, 'stdout')).toBe(Array.from({ length: 10 }, (_, i) => `${i}\n`).join(''));
  });

  test('a stream survives the death and restart of its gateway', async () => {
    const code = 'import time\nfor i in range(30):\n  print("line", i)\n  time.sleep(0.1)';
    const events: ExecutionEvent[] = [];
    let restarted: Promise<void> | undefined;
    for await (const event of await client.executions.stream(box.id, { code })) {
      events.push(event);
      if (event.type === 'stdout') restarted ??= gateway.kill('SIGKILL').then(() => gateway.restart());
    }
    await restarted;
    expect(events.map(({ seq }) => seq)).toEqual(events.map((_, index) => index + 1));
    expect(events.at(-1)).toMatchObject({ type: 'done', status: 'ok' });
  });

  test('a request whose response is lost is retried if retries are set, and takes effect once', async () => {
    link.cut();
    link.loseNextResponse();
    expect((await refusal(client.executions.run(box.id, { code: 'open("ran", "a").write("r")' }))).code).toBe(
      'unavailable',
    );
    link.loseNextResponse();
    await client.executions.run(box.id, { code: 'open("ran", "a").write("r")' }, { retries: 5 });
    expect((await client.executions.run(box.id, { code: 'open("ran").read()' })).text).toBe("'rr'");
  });

  test('a call that waits for a run resumes when its connection breaks', async () => {
    const code = 'import time; time.sleep(7); open("waited", "a").write("w"); open("waited").read()';
    const cut = setTimeout(link.cut, 6000);
    expect((await client.executions.run(box.id, { code })).text).toBe("'w'");
    clearTimeout(cut);
  });

  test('a request refused for lack of capacity is retried if retries are set', async () => {
    const full = [await client.boxes.create(), await client.boxes.create()];
    expect(await refusal(client.boxes.create())).toMatchObject({ code: 'unavailable', retryAfterSeconds: 5 });
    const later = client.boxes.create({}, { retries: 3 });
    for (const { id } of full) await client.boxes.delete(id);
    await client.boxes.delete((await later).id);
  });

  test('a call ends with its signal or its deadline, while the run continues', async () => {
    const leave = new AbortController();
    const stream = await client.executions.stream(
      box.id,
      { code: 'import time; time.sleep(2); print("late")' },
      { signal: leave.signal },
    );
    const reason = new Error('left');
    await expect(
      (async () => {
        for await (const event of stream) if (event.type === 'started') leave.abort(reason);
      })(),
    ).rejects.toBe(reason);
    const { outputs } = await client.executions.wait(box.id, stream.id);
    expect(streamOf(outputs, 'stdout')).toBe('late\n');
    const slow = client.executions.run(box.id, { code: 'import time; time.sleep(3)' }, { deadlineSeconds: 0.5 });
    expect((await refusal(slow)).code).toBe('timeout');
    const gone = client.boxes.read(box.id, { signal: AbortSignal.abort(reason) });
    await expect(gone).rejects.toBe(reason);
  });
});
