import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import {
  type ApiKey,
  type AuditEntry,
  createClient,
  type NewApiKey,
  type Page,
  type Problem,
  type Tenant,
  type Usage,
} from '#contract';
import { makeKey } from '../../services/gateway/http/admission/auth.ts';
import { openStore } from '../../services/gateway/store/store.ts';
import { anyDriver, databaseUrl, eventually, type RunningGateway, startGateway } from './harness.ts';
import { adminKey, endTenants, type SecondGateway, startSecond } from './operator.ts';

describe.each(anyDriver)('the admin API, on the %s driver', (driver) => {
  let gateway: RunningGateway;
  let other: SecondGateway;
  beforeAll(async () => {
    gateway = await startGateway(driver, { CODEBOX_ADMIN_KEY: adminKey, CODEBOX_QUOTAS: 'boxes=7' });
    other = await startSecond(gateway, driver);
  });
  afterAll(async () => {
    await other?.[Symbol.asyncDispose]();
    if (gateway) await endTenants(gateway);
    await gateway?.dispose();
  });

  const send = async <T>(method: string, path: string, body?: unknown, headers: Record<string, string> = {}) => {
    const response = await fetch(`${gateway.url}/v1/admin${path}`, {
      method,
      headers: { authorization: `Bearer ${adminKey}`, ...headers },
      ...(body !== undefined && { body: JSON.stringify(body) }),
    });
    const text = await response.text();
    return { status: response.status, body: (text ? JSON.parse(text) : undefined) as T, headers: response.headers };
  };
  const makeTenant = async (name: string) => (await send<Tenant>('POST', '/tenants', { name })).body;
  const issueKey = async (tenant: string, more: object = {}) =>
    (await send<NewApiKey>('POST', '/keys', { tenant, name: 'test', ...more })).body;
  const statusOf = async (key: string, path = '/v1/boxes', method = 'GET', url = gateway.url) =>
    (await fetch(`${url}${path}`, { method, headers: { authorization: `Bearer ${key}` } })).status;

  test('a tenant can be created, read, listed, updated and deleted', async () => {
    const created = await send<Tenant>('POST', '/tenants', { name: 'acme', quotas: { requestsPerMinute: 500 } });
    expect(created.status).toBe(201);
    const { id } = created.body;
    expect(created.headers.get('location')).toBe(`/v1/admin/tenants/${id}`);
    expect(created.body).toMatchObject({ name: 'acme', state: 'active', quotas: { boxes: 7, requestsPerMinute: 500 } });
    const changed = await send<Tenant>('PATCH', `/tenants/${id}`, { name: 'Acme', quotas: { boxes: null } });
    expect(changed.body).toMatchObject({ name: 'Acme', quotas: { boxes: null, requestsPerMinute: 500 } });
    expect((await send<Tenant>('GET', `/tenants/${id}`)).body).toEqual(changed.body);
    const listed = async (query = '') =>
      (await send<Page<Tenant>>('GET', `/tenants${query}`)).body.items.map((tenant) => tenant.id);
    expect(await listed()).toContain(id);
    expect((await send('DELETE', `/tenants/${id}`)).status).toBe(204);
    expect((await send('DELETE', `/tenants/${id}`)).status).toBe(204);
    expect(await listed()).not.toContain(id);
    expect(await listed('?state=deleted')).toContain(id);
    expect((await send<Problem>('PATCH', `/tenants/${id}`, { name: 'x' })).body.code).toBe('conflict');
    expect((await send<Problem>('POST', '/keys', { tenant: id, name: 'x' })).body.code).toBe('not_found');
    expect((await send<Problem>('GET', '/tenants/ten-nobody')).body.code).toBe('not_found');
  });

  test('the secret of a key is returned once, and neither lists nor the database contain it', async () => {
    const tenant = await makeTenant('keys');
    const made = await issueKey(tenant.id, { scopes: ['run'] });
    expect(made).toMatchObject({ tenant: tenant.id, scopes: ['run'], state: 'active', expiresAt: null });
    expect(await statusOf(made.key, '/v1/run', 'POST')).toBe(400);
    const listed = await send<Page<ApiKey>>('GET', `/keys?tenant=${tenant.id}`);
    const { key: _, ...withoutSecret } = made;
    expect(listed.body.items).toEqual([withoutSecret]);
    const store = await openStore(await databaseUrl(gateway.dataDir), () => {});
    const kept = JSON.stringify([await store.keys.find(made.id), await store.audit.list({ limit: 1000 })]);
    await store.close();
    expect(kept).toContain(made.id);
    expect(kept).not.toContain(made.key.slice(-20));
  });

  test('a key permits exactly the calls of its scopes', async () => {
    const tenant = await makeTenant('scopes');
    const box = `/v1/boxes/box-${'a'.repeat(26)}`;
    const calls = {
      'boxes:read': ['GET /v1/boxes', 'GET /v1/templates', `GET ${box}/executions`, `GET ${box}/stats`],
      'boxes:write': ['POST /v1/boxes', `DELETE ${box}`, `POST ${box}/keepalive`],
      run: [
        'POST /v1/run',
        `POST ${box}/executions`,
        `POST ${box}/tickets`,
        `GET ${box}/terminal`,
        `GET ${box}/ports/80/`,
      ],
      files: [`GET ${box}/files/x`, `PUT ${box}/files/x`, `GET ${box}/files:watch`],
      usage: ['GET /v1/usage'],
    };
    const all = Object.entries(calls).flatMap(([scope, list]) => list.map((call) => ({ scope, call })));
    for (const scope of Object.keys(calls)) {
      const { key, id } = await issueKey(tenant.id, { scopes: [scope] });
      // Any key can read its own tenant and scopes.
      const caller = await createClient({ url: gateway.url, key }).caller();
      expect(caller).toEqual({ tenant: tenant.id, key: id, scopes: [scope] });
      for (const { scope: required, call } of all) {
        const [method = '', path = ''] = call.split(' ');
        // The invalid body keeps these calls from creating anything; scopes are checked before the body.
        const response = await fetch(`${gateway.url}${path}`, {
          method,
          headers: { authorization: `Bearer ${key}` },
          ...(method === 'POST' && { body: '{"nonsense":1}' }),
        });
        const problem = response.status >= 400 ? ((await response.json()) as Problem).code : 'ok';
        expect([call, scope, problem === 'forbidden']).toEqual([call, scope, required !== scope]);
      }
    }
  });

  test('creating a box with packages or files requires their scopes as well', async () => {
    const tenant = await makeTenant('furnished');
    const { key } = await issueKey(tenant.id, { scopes: ['boxes:write'] });
    for (const body of [{ packages: ['./own.tar.gz'] }, { files: [{ path: 'x', text: 'y' }] }]) {
      const headers = { authorization: `Bearer ${key}` };
      const refused = await fetch(`${gateway.url}/v1/boxes`, { method: 'POST', headers, body: JSON.stringify(body) });
      expect([refused.status, ((await refused.json()) as Problem).code]).toEqual([403, 'forbidden']);
    }
  });

  test('a key stops working when it expires, after the overlap of a rotation, and at once when it is revoked', async () => {
    const tenant = await makeTenant('ends');
    const short = await issueKey(tenant.id, { expiresInSeconds: 1 });
    expect(Date.parse(short.expiresAt ?? '') - Date.parse(short.createdAt)).toBe(1000);
    await eventually(async () => (await statusOf(short.key)) === 401);
    const old = await issueKey(tenant.id, { scopes: ['boxes:read', 'run'] });
    const next = await send<NewApiKey>('POST', `/keys/${old.id}/rotate`, { overlapSeconds: 3 });
    expect([next.status, next.body.scopes, next.body.expiresAt]).toEqual([201, old.scopes, null]);
    expect([await statusOf(old.key), await statusOf(next.body.key)]).toEqual([200, 200]);
    await eventually(async () => (await statusOf(old.key)) === 401);
    expect(await statusOf(next.body.key)).toBe(200);
    expect((await send<Problem>('POST', `/keys/${old.id}/rotate`, {})).body.code).toBe('conflict');
    const last = await send<NewApiKey>('POST', `/keys/${next.body.id}/rotate`, { overlapSeconds: 0 });
    await eventually(async () => (await statusOf(next.body.key)) === 401);
    expect(await statusOf(last.body.key)).toBe(200);
  });

  test('every gateway refuses revoked keys and the keys of suspended tenants', async () => {
    const tenant = await makeTenant('gateways');
    const { key, id } = await issueKey(tenant.id);
    const both = async () => [await statusOf(key), await statusOf(key, '/v1/boxes', 'GET', other.url)].join();
    expect(await both()).toBe('200,200');
    await send('PATCH', `/tenants/${tenant.id}`, { state: 'suspended' });
    await eventually(async () => (await both()) === '403,403');
    await send('PATCH', `/tenants/${tenant.id}`, { state: 'active' });
    await eventually(async () => (await both()) === '200,200');
    expect((await send('DELETE', `/keys/${id}`)).status).toBe(204);
    await eventually(async () => (await both()) === '401,401');
    expect((await send<ApiKey>('GET', `/keys/${id}`)).body.state).toBe('revoked');
    expect((await send('DELETE', '/keys/nobody')).status).toBe(404);
  });

  test('a repeated Idempotency-Key creates one tenant or key, and the replay omits the secret', async () => {
    const keyed = { 'idempotency-key': 'one-tenant' };
    const [one, two] = [
      await send<Tenant>('POST', '/tenants', { name: 'once' }, keyed),
      await send<Tenant>('POST', '/tenants', { name: 'once' }, keyed),
    ];
    expect([two.status, two.body]).toEqual([201, one.body]);
    const body = { tenant: one.body.id, name: 'once' };
    const first = await send<NewApiKey>('POST', '/keys', body, { 'idempotency-key': 'one-key' });
    const again = await send<ApiKey>('POST', '/keys', body, { 'idempotency-key': 'one-key' });
    const { key, ...withoutSecret } = first.body;
    expect(key).toMatch(/^cbx_/);
    expect([again.status, again.body]).toEqual([200, withoutSecret]);
    expect((await send<Page<ApiKey>>('GET', `/keys?tenant=${one.body.id}`)).body.items).toHaveLength(1);
    expect(
      (await send<Problem>('POST', '/keys', { ...body, name: 'x' }, { 'idempotency-key': 'one-key' })).status,
    ).toBe(422);
  });

  test('lists are paginated', async () => {
    const tenant = await makeTenant('pages');
    const made = new Set<string>();
    for (let i = 0; i < 5; i++) made.add((await issueKey(tenant.id)).id);
    const seen: string[] = [];
    for (let cursor: string | null = ''; cursor !== null; ) {
      const path: string = `/keys?tenant=${tenant.id}&limit=2${cursor && `&cursor=${cursor}`}`;
      const page: Page<ApiKey> = (await send<Page<ApiKey>>('GET', path)).body;
      seen.push(...page.items.map((key) => key.id));
      cursor = page.nextCursor;
    }
    expect(seen).toHaveLength(5);
    expect(new Set(seen)).toEqual(made);
    for (const path of ['/keys', '/tenants', '/audit', `/tenants/${tenant.id}/usage`])
      expect([path, (await send('GET', `${path}?cursor=zzz`)).status]).toEqual([path, 400]);
  });

  test('every change is recorded in the audit log, which is append-only in the database', async () => {
    const tenant = await makeTenant('audited');
    const created = await issueKey(tenant.id);
    const changed = await send('PATCH', `/tenants/${tenant.id}`, { quotas: { boxes: 3 } });
    await send('DELETE', `/keys/${created.id}`);
    await send('DELETE', `/keys/${created.id}`);
    await send('DELETE', `/tenants/${tenant.id}`);
    const log = (await send<Page<AuditEntry>>('GET', `/audit?tenant=${tenant.id}`)).body.items.reverse();
    expect(log.map(({ actor, action, target }) => [actor, action, target])).toEqual([
      ['admin', 'tenant.create', tenant.id],
      ['admin', 'key.create', created.id],
      ['admin', 'tenant.update', tenant.id],
      ['admin', 'key.revoke', created.id],
      ['admin', 'tenant.delete', tenant.id],
    ]);
    expect(log[2]).toMatchObject({ details: { quotas: { boxes: 3 } }, requestId: changed.headers.get('x-request-id') });
    const { Client } = (await import('pg')).default;
    const client = new Client({ connectionString: await databaseUrl(gateway.dataDir) });
    await client.connect();
    for (const statement of ["update audit set actor = 'x'", 'delete from audit', 'truncate audit'])
      await expect(client.query(statement)).rejects.toThrow('append-only');
    await client.end();
  });

  test('deleting a tenant revokes its keys and ends its boxes', async () => {
    const tenant = await makeTenant('leaving');
    const { key } = await issueKey(tenant.id);
    const store = await openStore(await databaseUrl(gateway.dataDir), () => {});
    const response = await fetch(`${gateway.url}/v1/boxes`, {
      method: 'POST',
      headers: { authorization: `Bearer ${key}` },
      body: '{}',
    });
    const { id } = (await response.json()) as { id: string };
    expect(response.status).toBe(201);
    await send('DELETE', `/tenants/${tenant.id}`);
    await eventually(async () => (await statusOf(key)) === 401);
    await eventually(async () => (await store.boxes.find(tenant.id, id))?.box.state === 'deleted');
    const usage = (await send<Page<Usage>>('GET', `/tenants/${tenant.id}/usage`)).body.items;
    expect(usage).toMatchObject([{ user: null, boxes: 1 }]);
    await store.close();
  });

  test('requests that race the deletion of a tenant leave no box behind', async () => {
    const tenant = await makeTenant('racing');
    const { key } = await issueKey(tenant.id);
    const store = await openStore(await databaseUrl(gateway.dataDir), () => {});
    const call = (method: string, path: string, body: object) =>
      fetch(`${gateway.url}/v1/boxes${path}`, {
        method,
        headers: { authorization: `Bearer ${key}` },
        body: JSON.stringify(body),
      });
    const { id } = (await (await call('POST', '', {})).json()) as { id: string };
    const create = async () => (await call('POST', '', {})).status;
    const early = Array.from({ length: 3 }, create);
    await send('DELETE', `/tenants/${tenant.id}`);
    // The gateway caches the key for up to another second.
    const longer = call('PATCH', `/${id}`, { maxLifetimeSeconds: 86_400 });
    const late = await Promise.all(Array.from({ length: 3 }, create));
    expect(late.filter((status) => status !== 401 && status !== 403)).toEqual([]);
    expect([401, 403]).toContain((await longer).status);
    await Promise.all(early);
    await eventually(async () => (await store.boxes.list(tenant.id, { limit: 10 })).items.length === 0, 60_000);
    await store.close();
  });

  test('the admin API accepts only the admin key, which is valid for nothing else', async () => {
    const problem = async (headers: Record<string, string>) => {
      const { status, body } = await send<Problem>('GET', '/tenants', undefined, { authorization: '', ...headers });
      return [status, body.code];
    };
    expect(await problem({})).toEqual([401, 'unauthorized']);
    expect(await problem({ authorization: `Bearer ${gateway.key}` })).toEqual([401, 'unauthorized']);
    expect(await problem({ authorization: `Bearer ${adminKey}x` })).toEqual([401, 'unauthorized']);
    expect(await statusOf(adminKey)).toBe(401);
    const off = await fetch(`${other.url}/v1/admin/tenants`, { headers: { authorization: `Bearer ${adminKey}` } });
    expect([off.status, ((await off.json()) as Problem).detail]).toEqual([
      404,
      expect.stringContaining('CODEBOX_ADMIN_KEY'),
    ]);
  });

  test('bad input is a 400 that points at the field', async () => {
    const bad: [string, unknown, string][] = [
      ['/tenants', {}, '/name'],
      ['/tenants', { name: 'x', quotas: { boxes: -1 } }, '/quotas/boxes'],
      ['/tenants', { name: 'x', quotas: { apples: 1 } }, '/quotas/apples'],
      ['/keys', { tenant: 't', name: 'x', scopes: ['everything'] }, '/scopes/0'],
      ['/keys', { tenant: 't', name: 'x', scopes: [] }, '/scopes'],
      ['/keys', { tenant: 't', name: 'x', expiresInSeconds: 0 }, '/expiresInSeconds'],
    ];
    for (const [path, body, pointer] of bad) {
      const { status, body: problem } = await send<Problem>('POST', path, body);
      expect([path, status, problem.errors?.[0]?.pointer]).toEqual([path, 400, pointer]);
    }
    for (const query of ['from=0000-01-01', 'to=2026-02-30', 'from=x', 'user=%00'])
      expect([query, (await gateway.get(`/v1/usage?${query}`)).status]).toEqual([query, 400]);
  });

  test('an address with too many failed authentications gets 429, while keys already known to the gateway still work', async () => {
    const { key } = await issueKey((await makeTenant('patient')).id);
    const fresh = await issueKey((await makeTenant('fresh')).id);
    expect(await statusOf(key)).toBe(200);
    const wrong = async () => statusOf(makeKey().key);
    const refused = await eventually(
      async () =>
        (await wrong()) === 429 &&
        (await fetch(`${gateway.url}/v1/boxes`, { headers: { 'x-api-key': makeKey().key } })),
    );
    expect(Number(refused.headers.get('retry-after'))).toBeGreaterThan(0);
    expect([await statusOf(key), await statusOf(fresh.key), await statusOf('')]).toEqual([200, 429, 401]);
    expect((await send('GET', '/tenants')).status).toBe(200);
    expect(await statusOf(fresh.key, '/v1/boxes', 'GET', other.url)).toBe(200);
  });
});
