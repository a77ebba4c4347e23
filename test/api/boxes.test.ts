import { once } from 'node:events';
import { connect } from 'node:net';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Box, ExecutionEvent, Problem } from '#contract';
import { anyDriver, drivers, eventually, type RunningGateway, startGateway } from './harness.ts';

describe.each(drivers)('boxes on the %s driver', (driver) => {
  // The gateway decides on requests, ownership, expiry and capacity whatever the driver, so one driver suffices for these tests.
  const testOnce = anyDriver.includes(driver) ? test : () => {};
  let gateway: RunningGateway;
  beforeAll(async () => {
    gateway = await startGateway(driver, { CODEBOX_SWEEP_SECONDS: '1', CODEBOX_MAX_BOXES: '4' });
  });
  afterAll(() => gateway?.dispose());

  const read = async (id: string) => (await gateway.get<Box>(`/v1/boxes/${id}`)).body;
  const remove = (id: string) => gateway.call(`/v1/boxes/${id}`, { method: 'DELETE' });

  test('a new box is ready, with the requested environment, files and limits', async () => {
    const box = await gateway.createBox({
      user: 'ada',
      metadata: { chat: '7' },
      env: { SECRET: 'a\'b"c' },
      limits: { memoryMb: 512, pids: 100 },
      files: [
        { path: 'in/data.csv', text: 'a,b\n1,2\n' },
        { path: 'raw.bin', base64: 'AAEC' },
      ],
    });
    expect(box).toMatchObject({
      state: 'ready',
      user: 'ada',
      metadata: { chat: '7' },
      network: 'none',
      continuity: 'new',
    });
    expect(box.limits).toMatchObject({ memoryMb: 512, pids: 100, cpus: 1 });
    const seen = await gateway.run(
      box.id,
      'import os; (os.environ["SECRET"], open("in/data.csv").read(), open("raw.bin","rb").read(), os.getcwd())',
    );
    expect(seen.text).toBe(String.raw`('a\'b"c', 'a,b\n1,2\n', b'\x00\x01\x02', '/mnt/data')`);
    await remove(box.id);
  });

  testOnce('conflicting initial files are refused with a pointer, whatever their size', async () => {
    for (const text of ['', 'x'.repeat(300_000)]) {
      const files = [
        { path: 'a', text },
        { path: 'a/b', text },
      ];
      const refused = await gateway.post<Problem>('/v1/boxes', { files });
      expect(refused.body).toMatchObject({ status: 400, errors: [{ pointer: '/files/1/path' }] });
    }
  });

  test('a box without a network reaches no other host', async () => {
    const box = await gateway.createBox();
    const code = [
      'import socket, os',
      'reached = []',
      'for host in ["1.1.1.1", "169.254.169.254", "172.17.0.1", "10.0.0.1"]:',
      '  s = socket.socket(); s.settimeout(1)',
      `  for port in [80, ${new URL(gateway.url).port}]:`,
      '    try: s.connect((host, port)); reached.append((host, port))',
      '    except OSError: pass',
      'try: reached.append(socket.gethostbyname("example.com"))',
      'except OSError: pass',
      `try: socket.create_connection(("127.0.0.1", ${new URL(gateway.url).port}), 1); reached.append("gateway")`,
      'except OSError: pass',
      '(reached, sorted(os.listdir("/sys/class/net")) if os.path.exists("/sys/class/net") else ["lo"])',
    ].join('\n');
    expect((await gateway.run(box.id, code)).text).toBe("([], ['lo'])");
    await remove(box.id);
  });

  testOnce('a deleted box is gone at once and reports its cause, and deleting it is idempotent', async () => {
    const box = await gateway.createBox();
    expect((await remove(box.id)).status).toBe(204);
    expect((await remove(box.id)).status).toBe(204);
    expect(await read(box.id)).toMatchObject({ state: 'deleted', cause: { code: 'deleted' }, continuity: 'lost' });
    const used = await gateway.post<{ code: string }>(`/v1/boxes/${box.id}/executions`, { code: '1' });
    expect([used.status, used.body.code]).toEqual([410, 'gone']);
  });

  testOnce('reuse returns one box per user, also to concurrent requests', async () => {
    const create = () => gateway.post<Box>('/v1/boxes', { user: 'grace', reuse: true });
    const responses = await Promise.all([create(), create(), create(), create()]);
    expect(new Set(responses.map(({ body }) => body.id)).size).toBe(1);
    expect(responses.map(({ status }) => status).sort()).toEqual([200, 200, 200, 201]);
    expect(responses.filter(({ body }) => body.continuity === 'new')).toHaveLength(1);
    await remove(responses[0]?.body.id ?? '');
    const next = await create();
    expect([next.status, next.body.continuity]).toEqual([201, 'new']);
    await gateway.client.boxes.update(next.body.id, { maxLifetimeSeconds: 1 });
    await eventually(async () => Date.now() > Date.parse(next.body.createdAt) + 1000);
    // The expired box may still await the sweep.
    const another = await create();
    expect(another).toMatchObject({ status: 201, body: { continuity: 'new' } });
    await remove(another.body.id);
  });

  testOnce('lists can be filtered by user, state and metadata', async () => {
    const [one, two] = await Promise.all([
      gateway.createBox({ user: 'u1', metadata: { k: 'v1' } }),
      gateway.createBox({ user: 'u2', metadata: { k: 'v=2' } }),
    ]);
    const ids = async (query: string) =>
      (await gateway.get<{ items: Box[] }>(`/v1/boxes?${query}`)).body.items.map((box) => box.id);
    expect(await ids('user=u1')).toEqual([one.id]);
    expect(await ids('metadata=k=v=2')).toEqual([two.id]);
    await remove(one.id);
    expect(await ids('user=u1')).toEqual([]);
    expect(await ids('user=u1&state=deleted')).toEqual([one.id]);
    await remove(two.id);
  });

  testOnce('metadata and lifetimes can be updated', async () => {
    const box = await gateway.createBox();
    const response = await gateway.call(`/v1/boxes/${box.id}`, {
      method: 'PATCH',
      body: JSON.stringify({ metadata: { a: 'b' }, idleSeconds: 77, maxLifetimeSeconds: 1000 }),
    });
    const changed = (await response.json()) as Box;
    expect(changed).toMatchObject({ metadata: { a: 'b' }, idleSeconds: 77 });
    expect(Date.parse(changed.expiresAt) - Date.parse(changed.createdAt)).toBe(1_000_000);
    await remove(box.id);
  });

  testOnce('an idle box ends, while a box that runs code or is kept alive does not', async () => {
    const boxes = await Promise.all([gateway.createBox(), gateway.createBox(), gateway.createBox()]);
    const [idle, busy, kept] = boxes;
    const code = 'import os, time\nwhile not os.path.exists("go"): time.sleep(0.1)\n"still here"';
    const running = gateway.run(busy.id, code);
    const keeping = setInterval(() => void gateway.post(`/v1/boxes/${kept.id}/keepalive`, {}), 300);
    for (const { id } of boxes) await gateway.client.boxes.update(id, { idleSeconds: 2 });
    await eventually(async () => (await read(idle.id)).state === 'deleted');
    expect(await read(idle.id)).toMatchObject({ cause: { code: 'idle' } });
    await gateway.call(`/v1/boxes/${busy.id}/files/go`, { method: 'PUT' });
    expect((await running).text).toBe("'still here'");
    clearInterval(keeping);
    expect((await read(kept.id)).state).toBe('ready');
    await eventually(async () => (await read(kept.id)).state === 'deleted');
    await eventually(async () => (await read(busy.id)).state === 'deleted');
  });

  testOnce('the maximum lifetime ends a box however busy it is', async () => {
    const box = await gateway.createBox();
    const running = await gateway.client.executions.stream(box.id, { code: 'import time; time.sleep(300)' });
    const ended: ExecutionEvent[] = [];
    for await (const event of running) {
      ended.push(event);
      if (event.type === 'started') await gateway.client.boxes.update(box.id, { maxLifetimeSeconds: 1 });
    }
    expect(ended.at(-1)).toMatchObject({ status: 'lost', cause: { code: 'box_expired' } });
    await eventually(async () => (await read(box.id)).state === 'deleted');
    expect(await read(box.id)).toMatchObject({ cause: { code: 'expired' } });
  });

  testOnce('a request beyond the capacity gets 503 with Retry-After, and freed capacity is used again', async () => {
    const boxes = await Promise.all(Array.from({ length: 4 }, () => gateway.createBox()));
    const refused = await gateway.post<{ code: string }>('/v1/boxes', {});
    expect([refused.status, refused.body.code]).toEqual([503, 'unavailable']);
    expect(Number(refused.headers.get('retry-after'))).toBeGreaterThan(0);
    await Promise.all(boxes.map((box) => remove(box.id)));
    await remove((await gateway.createBox()).id);
  });

  testOnce('the box of another tenant is indistinguishable from a missing one, on every route', async () => {
    const box = await gateway.createBox({ user: 'mine' });
    const { id: execution } = await gateway.run(box.id, '1');
    const stranger = { authorization: `Bearer ${await gateway.addTenant()}` };
    const routes = [
      ['GET', ''],
      ['PATCH', ''],
      ['DELETE', ''],
      ['POST', '/keepalive'],
      ['GET', '/executions'],
      ['POST', '/executions'],
      ['GET', `/executions/${execution}`],
      ['GET', `/executions/${execution}/events`],
      ['POST', `/executions/${execution}/interrupt`],
      ['POST', `/executions/${execution}/input`],
      ['GET', '/contexts'],
      ['POST', '/contexts'],
      ['GET', '/files/'],
      ['PUT', '/files/x'],
      ['DELETE', '/files/x'],
      ['GET', '/commands'],
      ['POST', '/commands'],
    ] as const;
    const bodies: Record<string, unknown> = {
      '/executions': { code: '1' },
      '/contexts': { language: 'python' },
      '/commands': { command: 'ls' },
    };
    for (const [method, rest] of routes) {
      const body =
        method === 'GET' || method === 'DELETE'
          ? null
          : JSON.stringify(bodies[rest] ?? (rest.endsWith('/input') ? { text: '' } : {}));
      const foreign = await gateway.call(`/v1/boxes/${box.id}${rest}`, { method, headers: stranger, body });
      const missing = await gateway.call(`/v1/boxes/box-${'a'.repeat(26)}${rest}`, { method, headers: stranger, body });
      const [one, other] = (await Promise.all([foreign.json(), missing.json()])) as { requestId: string }[];
      expect([method, rest, foreign.status]).toEqual([method, rest, 404]);
      expect({ ...one, requestId: '' }).toEqual({ ...other, requestId: '' });
    }
    expect(((await (await gateway.call('/v1/boxes', { headers: stranger })).json()) as { items: [] }).items).toEqual(
      [],
    );
    expect((await read(box.id)).state).toBe('ready');
    await remove(box.id);
  });

  testOnce('a request whose body is cut off creates no box', async () => {
    const { hostname, port } = new URL(gateway.url);
    const ids = async () => (await gateway.get<{ items: Box[] }>('/v1/boxes')).body.items.map((box) => box.id);
    const before = await ids();
    for (const body of ['', '{}', '{"user":']) {
      const socket = connect(Number(port), hostname);
      const head = ['POST /v1/boxes HTTP/1.1', 'Host: x', `Authorization: Bearer ${gateway.key}`, 'Content-Length: 99'];
      socket.end(`${head.join('\r\n')}\r\n\r\n${body}`);
      socket.resume();
      await once(socket, 'close');
    }
    expect(await ids()).toEqual(before);
  });
});
