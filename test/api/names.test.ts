import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Box, Problem, Ticket } from '#contract';
import { anyDriver, type GatewayProcess, startGateways } from './harness.ts';
import { connect } from './websocket.ts';

const user = 'ada/team: é';
const at = (name: string, owner = user) => `/v1/boxes/${encodeURIComponent(`${owner}:${name}`)}`;

// Names are in the database, whatever the driver.
describe.each(anyDriver)('names of boxes on the %s driver', (driver) => {
  let a: GatewayProcess;
  let b: GatewayProcess;
  beforeAll(async () => {
    [a, b] = (await startGateways(driver, 2)) as [GatewayProcess, GatewayProcess];
  });
  afterAll(() => a?.dispose());

  const make = (gateway: GatewayProcess, name: string, more = {}) =>
    gateway.post<Box>('/v1/boxes', { user, name, ...more });

  test('many requests at several gateways make one box of a name, which its end frees', async () => {
    const made = await Promise.all([a, b, a, b, a, b].map((gateway) => make(gateway, 'one')));
    expect(made.map(({ status }) => status).sort()).toEqual([200, 200, 200, 200, 200, 201]);
    expect(new Set(made.map(({ body }) => body.id)).size).toBe(1);
    expect(made[0]?.body).toMatchObject({ user, name: 'one', onIdle: 'hibernate' });
    // Neither another name nor another user shares it, and reuse does not find it.
    const others = [make(a, 'two'), a.post<Box>('/v1/boxes', { user: 'eve', name: 'one' })];
    const reused = await a.post<Box>('/v1/boxes', { user, reuse: true });
    expect(new Set([made[0], ...(await Promise.all(others)), reused].map((one) => one?.body.id)).size).toBe(4);
    expect((await b.call(at('one'), { method: 'DELETE' })).status).toBe(204);
    expect((await a.get<Problem>(at('one'))).body).toMatchObject({ status: 404, code: 'not_found' });
    const next = await make(a, 'one');
    expect([next.status, next.body.id === made[0]?.body.id]).toEqual([201, false]);
    expect((await b.get<Box>(at('one'))).body.id).toBe(next.body.id);
  });

  test('a name stands for the id in every path, also of a box that hibernates', async () => {
    const { body: box } = await make(a, 'home');
    expect((await a.call(`${at('home')}/files/sub/x.txt`, { method: 'PUT', body: 'kept' })).status).toBe(201);
    expect((await b.post<Box>(`${at('home')}/hibernate`, {})).body).toMatchObject({ id: box.id, state: 'hibernated' });
    const found = await make(b, 'home');
    expect([found.status, found.body.id, found.body.continuity]).toEqual([200, box.id, 'restored']);
    expect((await b.post<Box>(`${at('home')}/hibernate`, {})).status).toBe(200);
    const read = await a.post(`${at('home')}/commands`, { command: 'cat sub/x.txt' });
    expect(read.body).toMatchObject({ stdout: 'kept' });
    const ran = await a.post<{ id: string }>(`${at('home')}/executions`, { code: '6 * 7' });
    expect(ran.body).toMatchObject({ text: '42' });
    expect((await b.get(`/v1/boxes/${box.id}/executions/${ran.body.id}`)).body).toMatchObject({ text: '42' });
    const { body: session } = await a.get<{ items: Box[] }>(`/v1/boxes?user=${encodeURIComponent(user)}`);
    expect(session.items.filter(({ name }) => name === 'home')).toHaveLength(1);
  });

  test('ports and terminals are reached by a name, with a key, a ticket or the session of a browser', async () => {
    const { body: box } = await make(a, 'web');
    const command = 'echo hello > index.html && python3 -m http.server 5000';
    await a.post(`${at('web')}/commands`, { command, detach: true });
    const page = `${at('web')}/ports/5000/index.html`;
    await expect.poll(async () => (await a.call(page)).status, { timeout: 30_000 }).toBe(200);
    const ticket = async () => (await b.post<Ticket>(`${at('web')}/tickets`, {})).body.ticket;
    const opened = await fetch(`${b.url}${page}?ticket=${await ticket()}`, { redirect: 'manual' });
    expect([opened.status, opened.headers.get('location')]).toEqual([303, page]);
    const cookie = opened.headers.get('set-cookie')?.split(';')[0] ?? '';
    expect(await (await fetch(`${a.url}${page}`, { headers: { cookie } })).text()).toBe('hello\n');
    const byId = page.replace(at('web'), `/v1/boxes/${box.id}`);
    expect(await (await fetch(`${a.url}${byId}`, { headers: { cookie } })).text()).toBe('hello\n');
    const elsewhere = page.replace(at('web'), at('one'));
    expect((await fetch(`${a.url}${elsewhere}`, { headers: { cookie } })).status).toBe(401);
    const terminal = await connect(a, `${at('web')}/terminal?ticket=${await ticket()}`, {});
    terminal.ws.close();
  });

  test('a name is of its tenant alone, and cannot be mistaken for an id', async () => {
    const key = await a.addTenant();
    const { body: box } = await make(a, 'mine');
    const headers = { authorization: `Bearer ${key}` };
    expect((await a.call(at('mine'), { headers })).status).toBe(404);
    expect((await a.post('/v1/boxes', { user, name: 'mine' }, headers)).status).toBe(201);
    expect((await a.get<Box>(at('mine'))).body.id).toBe(box.id);
    for (const name of ['', 'a:b', 'a/b', 'ä', 'x'.repeat(65), 'a b', '\0'])
      expect((await a.post<Problem>('/v1/boxes', { user, name })).body).toMatchObject({
        errors: [{ pointer: '/name' }],
      });
    expect((await a.post<Problem>('/v1/boxes', { name: 'x' })).body).toMatchObject({ errors: [{ pointer: '/user' }] });
    for (const text of [
      ':',
      ':mine',
      'x:',
      `${box.id}:`,
      `:${box.id}`,
      '%00:mine',
      '%zz:mine',
      `${'u'.repeat(257)}:mine`,
    ])
      expect((await a.call(`/v1/boxes/${text}`)).status).toBe(404);
    // A user may be called like a box.
    expect((await a.post<Box>('/v1/boxes', { user: box.id, name: 'x' })).status).toBe(201);
    expect((await a.get<Box>(at('x', box.id))).body.user).toBe(box.id);
  });
});
