import { once } from 'node:events';
import { createServer, type IncomingHttpHeaders, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { Client as Database } from 'pg';
import { Webhook as Verifier } from 'standardwebhooks';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Box, CreatedWebhook, Problem, Webhook, WebhookDelivery } from '#contract';
import { anyDriver, databaseUrl, eventually, type GatewayProcess, startGatewayProcess } from './harness.ts';
import { adminKey, makeTenant } from './operator.ts';

interface Received {
  path: string;
  headers: IncomingHttpHeaders;
  body: string;
}
interface Event {
  type: string;
  timestamp: string;
  data: Record<string, unknown>;
}

describe.each(anyDriver)('webhooks on the %s driver', (driver) => {
  let gateway: GatewayProcess;
  let database: Database;
  let base: string;
  const received: Received[] = [];
  /** What each path responds; by default 204. */
  const respond = new Map<string, (response: ServerResponse, count: number) => void>();
  const at = (path: string) => received.filter((one) => one.path === path);
  const receiver = createServer(async (request, response) => {
    const body = Buffer.concat(await Array.fromAsync(request)).toString();
    const path = request.url ?? '';
    received.push({ path, headers: request.headers, body });
    const own = respond.get(path);
    if (own) own(response, at(path).length);
    else response.writeHead(204).end();
  });

  beforeAll(async () => {
    receiver.listen(0, '127.0.0.1');
    await once(receiver, 'listening');
    base = `http://127.0.0.1:${(receiver.address() as AddressInfo).port}`;
    gateway = await startGatewayProcess(driver, {
      CODEBOX_ADMIN_KEY: adminKey,
      CODEBOX_OUTBOUND_ALLOW: '127.0.0.1',
      CODEBOX_WEBHOOK_RETRY_SECONDS: '0.3,0.3',
      CODEBOX_WEBHOOK_TIMEOUT_SECONDS: '1',
      CODEBOX_SWEEP_SECONDS: '0.3',
    });
    database = new Database({ connectionString: await databaseUrl(gateway.dataDir) });
    await database.connect();
  });
  afterAll(async () => {
    receiver.closeAllConnections();
    receiver.close();
    await database?.end();
    await gateway?.dispose();
  });

  const make = async (path: string, types = ['box.ended'], key = gateway.key) => {
    const headers = { authorization: `Bearer ${key}` };
    const { status, body } = await gateway.post<CreatedWebhook>('/v1/webhooks', { url: base + path, types }, headers);
    expect(status).toBe(201);
    return body;
  };
  const remove = (id: string) => gateway.call(`/v1/webhooks/${id}`, { method: 'DELETE' });
  const endBox = async () => {
    const box = await gateway.createBox();
    await gateway.client.boxes.delete(box.id);
    return box.id;
  };
  const log = async (id: string) =>
    (await gateway.get<{ items: WebhookDelivery[] }>(`/v1/webhooks/${id}/deliveries`)).body.items;
  const read = async (id: string) => (await gateway.get<Webhook>(`/v1/webhooks/${id}`)).body;
  const delivered = (path: string, count = 1) => eventually(async () => at(path).length >= count && at(path));

  test('a webhook gets an event when a run or a box of its tenant ends, signed as Standard Webhooks', async () => {
    const { id, secret, ...webhook } = await make('/ends', ['execution.ended', 'box.ended', 'export.ended']);
    await make('/runs', ['execution.ended']);
    await make('/foreign', ['execution.ended', 'box.ended'], await gateway.addTenant());
    expect(webhook).toMatchObject({ url: `${base}/ends`, enabled: true, failingSince: null });
    const box = await gateway.createBox({ user: 'ada' });
    const run = await gateway.run(box.id, '1/0');
    const exported = await gateway.client.exports.create(box.id, { files: [{ path: 'none', url: `${base}/up` }] });
    await gateway.client.boxes.delete(box.id);
    const requests = await delivered('/ends', 3);
    const events = requests.map(({ body, headers }) => {
      const given = headers as Record<string, string>;
      expect(() => new Verifier(secret).verify(body.replace('ada', 'eve'), given)).toThrow();
      expect(() => new Verifier(secret).verify(body, { ...given, 'webhook-id': 'evt-other' })).toThrow();
      return new Verifier(secret).verify(body, given) as Event;
    });
    const [ended, gone, sent] = ['execution.ended', 'box.ended', 'export.ended'].map((type) =>
      events.find((event) => event.type === type),
    );
    expect(ended?.data).toMatchObject({
      execution: run.id,
      box: box.id,
      user: 'ada',
      language: 'python',
      status: 'error',
    });
    expect(ended?.data.durationMs).toBeTypeOf('number');
    expect(sent?.data).toMatchObject({
      export: exported.id,
      box: box.id,
      user: 'ada',
      state: 'failed',
      fileCount: 0,
      failure: { code: 'not_found', path: 'none' },
    });
    expect(gone?.data).toMatchObject({ box: box.id, user: 'ada', state: 'deleted', cause: { code: 'deleted' } });
    expect(Date.parse(gone?.timestamp ?? '')).toBeGreaterThan(Date.parse(webhook.createdAt) - 1000);
    expect((await delivered('/runs')).length).toBe(1);
    expect(at('/foreign')).toEqual([]);
    await eventually(async () => (await log(id)).every(({ state }) => state === 'delivered'));
    expect(JSON.stringify([await read(id), await log(id)])).not.toContain(secret);
  });

  test('a new secret signs beside the former ones until their time is over, or at once alone', async () => {
    const { id, secret: first } = await make('/rotated');
    const rotate = async (graceSeconds?: number) => {
      const ask = graceSeconds === undefined ? {} : { graceSeconds };
      const { status, body } = await gateway.post<CreatedWebhook>(`/v1/webhooks/${id}/rotate`, ask);
      expect([status, (await read(id)).formerSecretUntil]).toEqual([200, body.formerSecretUntil]);
      return body;
    };
    const accepted = async (...secrets: string[]) => {
      const before = at('/rotated').length;
      await endBox();
      const { body, headers } = (await delivered('/rotated', before + 1)).at(-1) ?? { body: '', headers: {} };
      const accepts = (secret: string) => {
        try {
          return new Verifier(secret).verify(body, headers as Record<string, string>) !== undefined;
        } catch {
          return false;
        }
      };
      return secrets.map(accepts);
    };
    expect(await accepted(first)).toEqual([true]);
    const second = await rotate();
    const day = Date.parse(second.formerSecretUntil ?? '') - Date.now();
    expect([second.secret === first, day > 86_000_000, day < 86_500_000]).toEqual([false, true, true]);
    expect(await accepted(first, second.secret)).toEqual([true, true]);
    const third = await rotate(60);
    expect(await accepted(first, second.secret, third.secret)).toEqual([true, true, true]);
    await database.query("update webhooks set older_until = now() - interval '1 s' where id = $1", [id]);
    expect(await accepted(first, second.secret, third.secret)).toEqual([false, true, true]);
    await database.query("update webhooks set former_until = now() - interval '1 s' where id = $1", [id]);
    expect(await accepted(first, second.secret, third.secret)).toEqual([false, false, true]);
    const fourth = await rotate(0);
    expect(await accepted(third.secret, fourth.secret)).toEqual([false, true]);
    const more: string[] = [];
    for (let n = 0; n < 6; n++) more.push((await rotate()).secret);
    expect(await accepted(fourth.secret, ...more)).toEqual([false, false, true, true, true, true, true]);
    expect((await gateway.post(`/v1/webhooks/${id}/rotate`, { graceSeconds: 604_801 })).status).toBe(400);
    await remove(id);
  });

  test('a failed delivery is repeated with the same id, then given up, and repeated by request', async () => {
    respond.set('/twice', (response, count) => response.writeHead(count < 3 ? 500 : 200).end());
    respond.set('/never', (response) => response.writeHead(503).end('x'.repeat(100_000)));
    const [twice, never] = [await make('/twice'), await make('/never')];
    await endBox();
    const requests = await delivered('/twice', 3);
    expect(new Set(requests.map(({ headers }) => headers['webhook-id'])).size).toBe(1);
    for (const { body, headers } of requests)
      new Verifier(twice.secret).verify(body, headers as Record<string, string>);
    await eventually(async () => (await log(twice.id))[0]?.state === 'delivered');
    expect(await read(twice.id)).toMatchObject({ failingSince: null });
    const given = await eventually(async () => (await log(never.id)).find(({ state }) => state === 'failed'));
    expect(given).toMatchObject({ attempts: 3, lastStatus: 503, lastError: expect.stringContaining('503') });
    expect((await read(never.id)).failingSince).not.toBeNull();
    respond.delete('/never');
    const again = `/v1/webhooks/${never.id}/deliveries/${given.id}/redeliver`;
    expect((await gateway.call(again, { method: 'POST' })).status).toBe(202);
    await eventually(async () => (await log(never.id))[0]?.state === 'delivered');
    expect(new Set(at('/never').map(({ headers }) => headers['webhook-id']))).toEqual(new Set([given.id]));
    expect((await gateway.call(again.replace('evt-', 'evt-x'), { method: 'POST' })).status).toBe(404);
    for (const { id } of [twice, never]) await remove(id);
  });

  test('a webhook that hangs or redirects is not followed, and holds up no other', async () => {
    respond.set('/hangs', () => {});
    respond.set('/moves', (response) => response.writeHead(302, { location: `${base}/secret` }).end());
    const made = [await make('/hangs'), await make('/moves'), await make('/quick')];
    const before = at('/quick').length;
    await Promise.all(Array.from({ length: 6 }, endBox));
    await delivered('/quick', before + 6);
    await delivered('/moves', 6);
    const [hangs = { id: '' }, moves = { id: '' }] = made;
    const late = await eventually(async () => (await log(hangs.id)).find(({ lastError }) => lastError !== null));
    expect(late).toMatchObject({ lastStatus: null, lastError: 'There was no response in time.' });
    await eventually(async () => (await log(moves.id)).every(({ lastStatus }) => lastStatus === 302));
    expect(at('/secret')).toEqual([]);
    for (const { id } of made) await remove(id);
  });

  test('tenants whose webhooks all hang hold up no other tenant', async () => {
    respond.set('/stuck', () => {});
    const other = await gateway.addTenant();
    await make('/prompt', ['box.ended'], other);
    const slow = await Promise.all(Array.from({ length: 3 }, gateway.addTenant));
    const made = slow.flatMap((key) => Array.from({ length: 9 }, () => make('/stuck', ['box.ended'], key)));
    const stuck = (await Promise.all(made)).map(({ id }) => id);
    await database.query(
      `insert into webhook_deliveries (id, webhook_id, type, payload, next_at)
        select hook || n, hook, 'box.ended', '{"type": "box.ended", "timestamp": "2026-01-01T00:00:00Z", "data": {}}',
          now() - interval '1 hour' from unnest($1::text[]) hook, generate_series(1, 100) n`,
      [stuck],
    );
    await eventually(async () => at('/stuck').length >= 24);
    const headers = { authorization: `Bearer ${other}` };
    const { body: box } = await gateway.post<Box>('/v1/boxes', {}, headers);
    await gateway.call(`/v1/boxes/${box.id}`, { method: 'DELETE', headers });
    await delivered('/prompt', 1);
    const waiting = await database.query('select from webhook_deliveries where webhook_id = any($1) and attempts = 0', [
      stuck,
    ]);
    expect(waiting.rowCount).toBeGreaterThan(2000);
    await database.query('delete from webhooks where id = any($1)', [stuck]);
  });

  test('a tenant has at most ten webhooks, also when they are made at once', async () => {
    const key = await gateway.addTenant();
    const headers = { authorization: `Bearer ${key}` };
    const ask = () => gateway.post('/v1/webhooks', { url: `${base}/x`, types: ['box.ended'] }, headers);
    const statuses = (await Promise.all(Array.from({ length: 24 }, ask))).map(({ status }) => status);
    expect(statuses.filter((status) => status === 201)).toHaveLength(10);
    expect(statuses.filter((status) => status === 429)).toHaveLength(14);
  });

  test('the webhooks of a deleted tenant are deleted', async () => {
    const tenant = await makeTenant(gateway);
    const { id } = await make('/gone', ['box.ended'], tenant.key);
    const stays = async () => (await database.query('select from webhooks where id = $1', [id])).rowCount;
    expect(await stays()).toBe(1);
    await tenant.admin.tenants.delete(tenant.tenant.id);
    expect(await stays()).toBe(0);
  });

  test('a webhook cannot be in the network of the operator', async () => {
    const fault = async (url: string) => {
      const { status, body } = await gateway.post<Problem>('/v1/webhooks', { url, types: ['box.ended'] });
      return [status, body.errors?.[0]?.pointer];
    };
    for (const host of [
      '127.0.0.2',
      '10.0.0.1',
      '169.254.169.254',
      '0x7f000002',
      '[::1]',
      '[::ffff:127.0.0.1]',
      '[fd00:ec2::254]',
    ])
      for (const scheme of ['http', 'https']) expect(await fault(`${scheme}://${host}/`)).toEqual([400, '/url']);
    for (const url of ['ftp://example.com/', 'http://user:pass@127.0.0.1/', 'x'])
      expect(await fault(url)).toEqual([400, '/url']);
    // A name that resolves to such an address is found out when it is connected to.
    const { id } = await make('/renamed');
    await database.query('update webhooks set url = $1 where id = $2', ['http://127.0.0.2:1/', id]);
    await endBox();
    const refused = await eventually(async () => (await log(id)).find(({ lastError }) => lastError !== null));
    expect(refused).toMatchObject({ lastStatus: null, lastError: 'The address is not one that may be reached.' });
    await remove(id);
  });

  test('a webhook that has failed for long, or wants no more, is disabled until it is enabled again', async () => {
    respond.set('/gone', (response, count) => response.writeHead(count === 1 ? 410 : 500).end());
    const { id } = await make('/gone');
    await endBox();
    await eventually(async () => !(await read(id)).enabled);
    await endBox();
    expect((await log(id)).length).toBe(1);
    const enable = () =>
      gateway.call(`/v1/webhooks/${id}`, { method: 'PATCH', body: JSON.stringify({ enabled: true }) });
    expect(await (await enable()).json()).toMatchObject({ enabled: true, failingSince: null });
    await database.query("update webhooks set failing_since = now() - interval '6 days' where id = $1", [id]);
    await endBox();
    await eventually(async () => !(await read(id)).enabled);
    await remove(id);
  });

  test('a tenant has at most ten webhooks, with at most a thousand events each, and others cannot touch them', async () => {
    const key = await gateway.addTenant();
    const made = await Promise.all(Array.from({ length: 9 }, () => make('/many', ['box.ended'], key)));
    await make('/many', ['box.ended'], key);
    const headers = { authorization: `Bearer ${key}` };
    const more = await gateway.post<Problem>('/v1/webhooks', { url: base, types: ['box.ended'] }, headers);
    expect([more.status, more.body.code]).toEqual([429, 'too_many_requests']);
    const foreign = `/v1/webhooks/${made[0]?.id}`;
    for (const [method, path] of [
      ['GET', ''],
      ['PATCH', ''],
      ['DELETE', ''],
      ['GET', '/deliveries'],
      ['POST', '/rotate'],
      ['POST', '/deliveries/x/redeliver'],
    ])
      expect(
        (await gateway.call(foreign + path, { method: method ?? '', ...(method === 'PATCH' && { body: '{}' }) }))
          .status,
      ).toBe(404);
    const { id } = await make('/full');
    await database.query(
      `insert into webhook_deliveries (id, webhook_id, type, payload, next_at)
         select 'evt-full' || n, $1, 'box.ended', '{}', now() + interval '1 day' from generate_series(1, 1000) n`,
      [id],
    );
    await endBox();
    const { rows } = await database.query('select count(*)::int from webhook_deliveries where webhook_id = $1', [id]);
    expect(rows[0]).toEqual({ count: 1000 });
    await remove(id);
  });

  test('a webhook gets one event a day when the CPU time of its tenant is used up', async () => {
    const { id } = await make('/quota', ['quota.exceeded']);
    const { rows } = await database.query<{ tenant_id: string }>('select tenant_id from webhooks where id = $1', [id]);
    const tenant = rows[0]?.tenant_id;
    await database.query(
      'insert into quotas (tenant_id, cpu_seconds_per_day) values ($1, 1000000) on conflict (tenant_id) do update set cpu_seconds_per_day = 1000000',
      [tenant],
    );
    const use = (user: string, ms: number) =>
      database.query(
        `insert into usage (tenant_id, user_id, day, cpu_ms) values ($1, $2, (now() at time zone 'utc')::date, $3)
           on conflict (tenant_id, day, user_id) do update set cpu_ms = usage.cpu_ms + excluded.cpu_ms`,
        [tenant, user, ms],
      );
    await use('quota-a', 999_000_000);
    expect(await log(id)).toEqual([]);
    await use('quota-b', 2_000_000);
    await use('quota-b', 1000);
    const [{ body } = { body: '' }] = await delivered('/quota');
    expect((JSON.parse(body) as Event).data).toMatchObject({ quota: 'cpuSecondsPerDay', limit: 1_000_000 });
    expect((await log(id)).length).toBe(1);
    await database.query('update quotas set cpu_seconds_per_day = null where tenant_id = $1', [tenant]);
    await remove(id);
  });

  test('an event is written in the transaction that causes it, so never without it', async () => {
    const { id } = await make('/undone');
    const box = await gateway.createBox();
    const end = "update boxes set state = 'lost', ended_at = now() where id = $1";
    await database.query('begin');
    await database.query(end, [box.id]);
    const inside = await database.query('select id from webhook_deliveries where webhook_id = $1', [id]);
    await database.query('rollback');
    expect([inside.rows.length, await log(id)]).toEqual([1, []]);
    await gateway.client.boxes.delete(box.id);
    await remove(id);
  });

  test('a delivery that a killed gateway had begun is made by the next one, and old ones are deleted', async () => {
    respond.set('/killed', (response, count) => {
      if (count > 1) response.writeHead(200).end();
    });
    const { id } = await make('/killed');
    await database.query(
      `insert into webhook_deliveries (id, webhook_id, type, payload, state, created_at)
         values ('evt-old', $1, 'box.ended', '{}', 'delivered', now() - interval '8 days')`,
      [id],
    );
    await endBox();
    const [first] = await delivered('/killed');
    await gateway.kill('SIGKILL');
    await gateway.restart();
    const [, second] = await delivered('/killed', 2);
    expect(second?.headers['webhook-id']).toBe(first?.headers['webhook-id']);
    await eventually(async () => {
      const deliveries = await log(id);
      return deliveries.length === 1 && deliveries[0]?.state === 'delivered';
    });
  });
});
