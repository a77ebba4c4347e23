import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { projectFolder } from '../../scripts/project.ts';
import { toE2bKey } from '../../services/gateway/dialects/e2b/key.ts';
import { anyDriver, type RunningGateway, startGateway } from '../api/harness.ts';
import { adminKey, endTenants, makeTenant } from '../api/operator.ts';
import { rawRequest } from '../api/servers.ts';
import { clientsOf, installCli, installClients, runOlderClients, testedPackages } from './e2b-clients.ts';

beforeAll(installClients);

describe.each(anyDriver)('the rules of the E2B dialect, on the %s driver', (driver) => {
  let gateway: RunningGateway;
  let id: string;
  const { js, control } = clientsOf(() => ({ gateway, sandbox: id }));
  beforeAll(async () => {
    gateway = await startGateway(driver, { CODEBOX_DIALECTS: 'e2b', CODEBOX_ADMIN_KEY: adminKey });
    id = (await control('POST', '/v2/sandboxes', { templateID: 'base' })).body.sandboxID as string;
  });
  afterAll(async () => {
    if (id) await control('DELETE', `/sandboxes/${id}`);
    if (gateway) await endTenants(gateway);
    await gateway?.dispose();
  });

  const inside = (path: string, headers: Record<string, string>, port = 49_983, init: RequestInit = {}) =>
    fetch(`${gateway.url}${path}`, {
      ...init,
      headers: { 'e2b-sandbox-id': id, 'e2b-sandbox-port': String(port), ...headers },
    });

  test('keys count only in the form e2b_…, tokens only for their sandbox, and both end with the key', async () => {
    const refused = { code: 401, message: expect.stringContaining('e2b_') };
    for (const key of ['', gateway.key, 'e2b_00', `${toE2bKey(gateway.key)}00`])
      expect(await control('GET', '/v2/sandboxes', undefined, key)).toMatchObject({ status: 401, body: refused });
    const bearer = { headers: { authorization: `Bearer ${gateway.key}` } };
    expect((await fetch(`${gateway.url}/sandboxes/${id}`, bearer)).status).toBe(401);

    const [tenant, other] = [await makeTenant(gateway), await makeTenant(gateway)];
    expect(await control('GET', `/sandboxes/${id}`, undefined, toE2bKey(other.key))).toMatchObject({
      status: 404,
      body: { code: 404 },
    });
    const made = await control('POST', '/sandboxes', { templateID: 'base', timeout: 60 }, toE2bKey(tenant.key));
    expect(made.status).toBe(201);
    const { envdAccessToken: envd, trafficAccessToken: traffic, sandboxID } = made.body as Record<string, string>;
    const own = { 'e2b-sandbox-id': sandboxID ?? '' };
    const [byEnvd, byTraffic] = [{ 'x-access-token': envd ?? '' }, { 'e2b-traffic-access-token': traffic ?? '' }];
    const statuses = async () => [
      (await inside('/health', { ...own, ...byEnvd })).status,
      (await inside('/health', { ...own, ...byTraffic })).status,
      (await inside('/contexts', { ...own, ...byTraffic }, 49_999)).status,
      (await inside('/contexts', own, 49_999)).status,
      (await inside('/health', { ...byEnvd })).status,
      (await inside('/sandboxes', { ...own, ...byEnvd })).status,
    ];
    expect(await statuses()).toEqual([204, 401, 200, 403, 401, 404]);
    await tenant.admin.keys.revoke(tenant.key.split('_')[1] ?? '');
    await expect.poll(statuses, { timeout: 10_000 }).toEqual([401, 401, 403, 403, 401, 401]);
  });

  test('each group of calls is served at its own port, and a bad address is a 400', async () => {
    const { body } = await control('POST', `/v2/sandboxes/${id}/connect`, {});
    const [envd, traffic] = [
      { 'x-access-token': body.envdAccessToken as string },
      { 'e2b-traffic-access-token': body.trafficAccessToken as string },
    ];
    const post = { method: 'POST', body: '{"code":"1"}', headers: { 'content-type': 'application/json' } };
    const statuses = await Promise.all([
      inside('/files?path=.', envd, 49_999),
      inside('/contexts', envd, 49_983),
      inside('/execute', { ...envd, ...post.headers }, 49_983, post),
      inside('/filesystem.Filesystem/Stat', { ...envd, ...post.headers }, 49_999, post),
    ]);
    expect(statuses.map(({ status }) => status)).toEqual([404, 404, 404, 404]);
    const health = await inside('/health', traffic, 49_999);
    expect([health.status, await health.text()]).toEqual([200, '"OK"']);
    for (const [headers, message] of [
      [{ 'e2b-sandbox-id': id }, 'Missing header: E2b-Sandbox-Port'],
      [{ 'e2b-sandbox-port': '49983' }, 'Missing header: E2b-Sandbox-Id'],
      [{ 'e2b-sandbox-id': id, 'e2b-sandbox-port': 'x' }, 'port is invalid'],
      [{ 'e2b-sandbox-id': id, 'e2b-sandbox-port': '70000' }, 'port is invalid'],
      [{ 'e2b-sandbox-id': 'NOPE-1', 'e2b-sandbox-port': '49983' }, 'id is invalid'],
    ] as const) {
      const response = await fetch(`${gateway.url}/health`, { headers: { ...headers, ...envd } });
      expect([response.status, await response.json()]).toMatchObject([
        400,
        { code: 400, message: expect.stringContaining(message) },
      ]);
    }
    const foreign = await inside('/', { ...traffic, 'e2b-sandbox-id': 'i1abc0' }, 3000);
    expect([foreign.status, await foreign.json()]).toMatchObject([502, { message: 'The sandbox was not found' }]);
  });

  test('signed URLs read and write one file until they expire, from pages of any origin', async () => {
    const seen = await js<Record<string, unknown>>(`
      await sandbox.files.write('ü +&.txt', 'signed');
      const read = async (url) => { const response = await fetch(url); return [response.status, await response.text()]; };
      const url = await sandbox.downloadUrl('ü +&.txt');
      const form = new FormData();
      form.append('file', new Blob(['sent']), 'any name');
      const upload = await sandbox.uploadUrl('up/loaded', { useSignatureExpiration: 60 });
      const sent = await fetch(upload, { method: 'POST', body: form });
      const plain = new FormData();
      plain.append('file', 'a field');
      await fetch(await sandbox.uploadUrl('field'), { method: 'POST', body: plain });
      const changed = (name, value) => { const other = new URL(url); other.searchParams.set(name, value); return other; };
      const refused = [];
      for (const other of [changed('path', 'up/loaded'), changed('signature', 'v1_x'), changed('username', 'root'), changed('signature_expiration', '99999999999'), upload])
        refused.push((await read(other))[0]);
      refused.push((await fetch(url, { method: 'POST', body: form })).status);
      const brief = await sandbox.downloadUrl('up/loaded', { useSignatureExpiration: -10 });
      const headers = { Origin: 'https://page.example', 'Access-Control-Request-Method': 'POST' };
      const asked = await fetch(upload, { method: 'OPTIONS', headers });
      const named = await fetch(new URL('/execute', upload), { method: 'OPTIONS', headers: { ...headers, 'Access-Control-Request-Headers': 'content-type,E2b-Sandbox-Id' } });
      return { read: await read(url), again: await read(url), sent: sent.status, kept: await sandbox.files.read('up/loaded'), field: await sandbox.files.read('field'), refused,
        late: await read(brief), named: [named.status, named.headers.get('access-control-allow-headers')], origin: [asked.status, asked.headers.get('access-control-allow-origin'), sent.headers.get('access-control-allow-origin')] };
    `);
    expect(seen).toEqual({
      ...{ read: [200, 'signed'], again: [200, 'signed'], sent: 200, kept: 'sent', field: 'a field' },
      refused: [401, 401, 401, 401, 401, 401],
      late: [401, expect.stringContaining('expired')],
      named: [204, 'content-type,E2b-Sandbox-Id'],
      origin: [204, '*', '*'],
    });
  });

  test('servers of a sandbox are reached by header and by host, and a port without one is a 502', async () => {
    const { body } = await control('POST', `/v2/sandboxes/${id}/connect`, {});
    const token = { 'e2b-traffic-access-token': body.trafficAccessToken as string };
    await js(
      `await sandbox.commands.run('echo served > index.html; python3 -m http.server 3000', { background: true, timeoutMs: 0 }); return 1`,
    );
    await expect.poll(async () => (await inside('/index.html', token, 3000)).text()).toBe('served\n');
    const domain = body.domain as string;
    expect(domain).toBe(`localhost:${new URL(gateway.url).port}`);
    const at = (headers: Record<string, string>) =>
      rawRequest({ url: gateway.url, key: '' }, '/index.html', {
        headers: { host: `3000-${id}.${domain}`, ...headers },
      });
    expect((await at(token)).text).toBe('served\n');
    const missing = await at({});
    const message = expect.stringContaining("Token header 'e2b-traffic-access-token' is missing");
    expect([missing.response.statusCode, JSON.parse(missing.text)]).toEqual([
      403,
      { sandboxId: id, message, code: 403 },
    ]);
    const closed = await inside('/', token, 3001);
    const isClosed = 'The sandbox is running but port is not open';
    expect([closed.status, await closed.json()]).toEqual([
      502,
      { sandboxId: id, port: 3001, message: isClosed, code: 502 },
    ]);
    const page = await inside('/', { ...token, accept: 'text/html,*/*' }, 3001);
    expect([page.status, page.headers.get('content-type')]).toEqual([502, 'text/html; charset=UTF-8']);
    expect(await page.text()).toContain('<title>Closed Port Error</title>');
  });

  test('a page that asks for a public sandbox that has ended does not lock out its address', async () => {
    const open = async () => {
      const body = { templateID: 'base', network: { allowPublicTraffic: true } };
      return (await control('POST', '/sandboxes', body)).body.sandboxID as string;
    };
    const [ended, living] = [await open(), await open()];
    const statusOf = async (sandbox: string) => (await inside('/', { 'e2b-sandbox-id': sandbox }, 3000)).status;
    await control('DELETE', `/sandboxes/${ended}`);
    const statuses = new Set<number>();
    for (let n = 0; n < 100; n++) statuses.add(await statusOf(ended));
    expect([...statuses]).toEqual([502]);
    expect(await statusOf(living)).toBe(502);
    expect((await inside('/', { 'e2b-sandbox-id': 'a'.repeat(26) }, 3000)).status).toBe(403);
    await control('DELETE', `/sandboxes/${living}`);
  });

  test('a sandbox has the template that was asked for, and is listed by it', async () => {
    const ask = { templateID: 'code-interpreter-v1', metadata: { of: 'templates' } };
    const made = await control('POST', '/v2/sandboxes', ask);
    const named = { templateID: 'code-interpreter-v1', alias: 'code-interpreter-v1' };
    expect(made.body).toMatchObject(named);
    const sandbox = made.body.sandboxID as string;
    expect((await control('GET', `/sandboxes/${sandbox}`)).body).toMatchObject({ ...named, metadata: ask.metadata });
    const listed = async (template: string) =>
      (await control('GET', `/v2/sandboxes?metadata=of%3Dtemplates&template=${template}`)).body;
    for (const template of ['base', 'code-interpreter-v1', 'python'])
      expect(await listed(template)).toMatchObject([{ ...named, sandboxID: sandbox, metadata: ask.metadata }]);
    expect(await listed('nope')).toEqual([]);
    expect((await control('DELETE', `/sandboxes/${sandbox}`)).status).toBe(204);
  });

  test('older clients create a sandbox, use its code, files and commands, and end it', async () => {
    const seen = await runOlderClients(gateway);
    const path = ['42', 'text', ['a.txt'], 'text', true, false];
    expect(Object.values(seen)).toEqual([path, path, path, path]);
  });

  test("E2B's program for the command line lists, shows, uses, pauses, resumes and ends a sandbox", async () => {
    const cli = await installCli(gateway);
    const { body } = await control('POST', '/v2/sandboxes', { templateID: 'base', metadata: { by: 'cli' } });
    const sandbox = body.sandboxID as string;
    expect(await cli(['list'])).toMatch(new RegExp(`${sandbox}.*Running.*"by":"cli"`));
    expect(await cli(['info', sandbox])).toContain('State: running');
    expect(await cli(['exec', sandbox, 'echo', 'said'])).toBe('said\n');
    expect(await cli(['connect', sandbox], 'echo made-$((1+1)); exit\n')).toContain('made-2');
    expect(await cli(['metrics', sandbox])).toContain('/ 320');
    expect(await cli(['pause', sandbox])).toContain('paused');
    expect(await cli(['list', '--state', 'paused'])).toContain(sandbox);
    expect(await cli(['resume', sandbox])).toContain('resumed');
    expect(await cli(['kill', sandbox])).toContain('killed');
  });

  test('the documentation names exactly the clients that are tested', async () => {
    console.log(`Tested E2B clients: ${testedPackages.join(', ')}`);
    const text = await readFile(join(projectFolder, 'docs/dialects/e2b.md'), 'utf8');
    expect([...text.matchAll(/`([^`\s]+(?:@|==)\d[\d.]*)`/g)].map(([, name]) => name)).toEqual(testedPackages);
  });

  test("bad input gets an error in E2B's format, and unsupported options are refused", async () => {
    for (const [body, text] of [
      [{}, 'templateID'],
      [{ templateID: 'nope' }, 'nope'],
      [{ templateID: 'base', timeout: 1e9 }, 'timeout'],
      [
        { templateID: 'base', network: { denyOut: ['8.8.8.8'] } },
        'network/denyOut/0 is not supported: traffic is permitted or denied as a whole',
      ],
      [{ templateID: 'base', network: { httpsPorts: [8443] } }, 'network/httpsPorts is not supported'],
      [{ templateID: 'base', network: { allowOut: ['pypi.org'] } }, 'network/allowOut/0 is not supported'],
      [{ templateID: 'base', network: { maskRequestHost: 'a' } }, 'network/maskRequestHost is not supported'],
      [
        { templateID: 'base', autoPause: true, autoResume: { enabled: false } },
        'autoResume/enabled has to be the same',
      ],
      [{ templateID: 'base', mcp: {} }, 'mcp is not supported'],
    ] as const) {
      const message = expect.stringContaining(text);
      expect(await control('POST', '/v2/sandboxes', body)).toMatchObject({ status: 400, body: { code: 400, message } });
    }
    for (const path of [
      '/v2/sandboxes?limit=0',
      '/v2/sandboxes?nextToken=x',
      '/v2/sandboxes?metadata=%25',
      '/v2/sandboxes?state=odd',
    ])
      expect(await control('GET', path)).toMatchObject({ status: 400, body: { code: 400 } });
    expect((await control('PUT', `/sandboxes/${id}/network`, { allow_internet_access: false })).status).toBe(204);
    for (const body of [{ allow_internet_access: true }, { allowOut: ['1.1.1.1'] }])
      expect(await control('PUT', `/sandboxes/${id}/network`, body)).toMatchObject({
        status: 400,
        body: { code: 400 },
      });
    for (const path of ['/templates/aliases/nope', '/sandboxes/nope', '/sandboxes/NOPE-1', '/teams'])
      expect(await control('GET', path)).toMatchObject({ status: 404, body: { code: 404 } });
    for (const [method, path, what] of [
      ['GET', '/volumes', 'Volumes'],
      ['GET', '/volumecontent/vol/dir?path=/', 'Volumes'],
      ['POST', '/secrets', 'Secrets'],
      ['POST', '/templates', 'templates'],
      ['PATCH', '/v2/templates/base', 'templates'],
      ['DELETE', '/templates/base', 'templates'],
      ['GET', '/templates/base/tags', 'Tags'],
    ] as const)
      expect(await control(method, path)).toMatchObject({
        status: 501,
        body: { code: 501, message: expect.stringMatching(new RegExp(`${what}.* not supported`)) },
      });
    for (const path of ['/templates', '/v2/templates'])
      expect(await control('GET', path)).toMatchObject({ status: 200, body: [{ templateID: 'python' }] });

    const { body } = await control('POST', `/v2/sandboxes/${id}/connect`, {});
    const token = { 'x-access-token': body.envdAccessToken as string };
    const post = async (
      path: string,
      sent: string | Uint8Array<ArrayBuffer>,
      port = 49_983,
      type = 'application/json',
    ) => {
      const response = await inside(path, { ...token, 'content-type': type }, port, { method: 'POST', body: sent });
      return [response.status, await response.text()];
    };
    expect(await post('/execute', '{', 49_999)).toEqual([400, expect.stringContaining('not valid JSON')]);
    const both = JSON.stringify({ code: '1', context_id: 'a', language: 'python' });
    expect(await post('/execute', both, 49_999)).toEqual([400, expect.stringContaining('Only one of context_id')]);
    expect(await post('/filesystem.Filesystem/Stat', '{"path":"nope"}')).toEqual([
      404,
      expect.stringContaining('"not_found"'),
    ]);
    expect(await post('/filesystem.Filesystem/Stat', '{"path":1}')).toEqual([
      400,
      expect.stringContaining('"invalid_argument"'),
    ]);
    expect(await post('/files?path=x', 'a', 49_983, 'multipart/form-data')).toEqual([
      400,
      expect.stringContaining('"code":400'),
    ]);
    // A stream that fails has the status 200, and its only message is the error.
    const stream = 'application/connect+json';
    for (const method of ['Start', 'StreamInput'])
      for (const sent of [
        '',
        '{}',
        Uint8Array.from([0, 0, 0, 0, 2, 123, 125]),
        Uint8Array.from([1, 255, 255, 255, 255]),
      ])
        expect(await post(`/process.Process/${method}`, sent, 49_983, stream)).toEqual([
          200,
          expect.stringContaining('"invalid_argument"'),
        ]);
  });
});

describe.each(anyDriver)('without the E2B dialect, on the %s driver', (driver) => {
  test('its paths do not exist', async () => {
    const gateway = await startGateway(driver);
    try {
      for (const path of ['/sandboxes', '/v2/sandboxes', '/execute', '/files']) {
        const headers = { 'x-api-key': toE2bKey(gateway.key), 'e2b-sandbox-id': 'a', 'e2b-sandbox-port': '49983' };
        const response = await fetch(`${gateway.url}${path}`, { headers });
        expect([response.status, response.headers.get('content-type')]).toEqual([404, 'application/problem+json']);
      }
    } finally {
      await gateway.dispose();
    }
  });
});
