import { mkdtemp, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { pino } from 'pino';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type Box, type Client, createClient, type KeyScope } from '#contract';
import { readConfig } from '../../services/gateway/config.ts';
import { createGateway } from '../../services/gateway/gateway.ts';
import type { Surface } from '../../services/gateway/http/surface.ts';
import { problemResponse } from '../../services/http/problems/problem.ts';
import { placeDatabase } from '../prepared-database.ts';
import { quickFolder } from '../quick-folder.ts';
import { anyDriver, eventually } from './harness.ts';
import { adminKey } from './operator.ts';
import { frame, plantedHosts, plantedId, plantedKey, plantedPaths } from './planted-dialect.ts';
import { rawRequest } from './servers.ts';

const server = `
import threading, http.server
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        body = ('served ' + self.path).encode()
        self.send_response(200)
        self.send_header('content-length', str(len(body)))
        self.end_headers()
        self.wfile.write(body)
threading.Thread(target=http.server.HTTPServer(('127.0.0.1', 5000), Handler).serve_forever, daemon=True).start()
`;

test('a surface that does not declare its credentials does not compile', () => {
  // @ts-expect-error: its routes would not be authenticated.
  const open: Surface = { claims: { prefix: '/open' }, needed: () => '', respond: problemResponse };
  expect(open).not.toHaveProperty('credentialOf');
});

describe.each(anyDriver)('a second surface beside /v1, on the %s driver', (driver) => {
  const stack = new AsyncDisposableStack();
  const lines: Record<string, unknown>[] = [];
  let url: string;
  let key: string;
  let operator: Client;
  let client: Client;
  let box: Box;
  let tenant: string;
  beforeAll(async () => {
    const dataDir = await mkdtemp(join(quickFolder, 'codebox-surfaces-'));
    stack.defer(() => rm(dataDir, { recursive: true, force: true }));
    await placeDatabase(dataDir);
    const config = readConfig({
      CODEBOX_DATA_DIR: dataDir,
      CODEBOX_DRIVER: driver,
      CODEBOX_PORT: '0',
      CODEBOX_WARM_BOXES: '0',
      CODEBOX_ADMIN_KEY: adminKey,
    });
    const log = pino({}, { write: (line: string) => lines.push(JSON.parse(line)) });
    const gateway = stack.use(await createGateway(config, { log, dialects: [plantedPaths, plantedHosts] }));
    url = `http://127.0.0.1:${await gateway.start()}`;
    operator = createClient({ url, key: adminKey });
    tenant = (await operator.admin.tenants.create({ name: 'planted' })).id;
    key = await makeKey();
    client = createClient({ url, key });
    box = await client.boxes.create({});
    stack.defer(() => client.boxes.delete(box.id));
    await client.executions.run(box.id, { code: server });
  });
  afterAll(() => stack.disposeAsync());

  const makeKey = async (scopes?: KeyScope[], of = tenant) =>
    (await operator.admin.keys.create({ tenant: of, name: 'test', ...(scopes && { scopes }) })).key;
  const call = async (path: string, { key: by = key, ...init }: RequestInit & { key?: string } = {}) => {
    const response = await fetch(`${url}${path}`, {
      ...init,
      headers: { 'planted-key': plantedKey(by), ...init.headers },
    });
    return { response, status: response.status, text: await response.text() };
  };
  const run = async (code: string, query = '') => {
    const path = `${url}/planted/boxes/${plantedId(box.id)}/run${query}`;
    const response = await fetch(path, { method: 'POST', body: code, headers: { 'planted-key': plantedKey(key) } });
    return { type: response.headers.get('content-type'), bytes: Buffer.from(await response.arrayBuffer()) };
  };
  const oops = (text: string) => (JSON.parse(text) as { oops: string }).oops;

  test('each surface accepts its own key format, and refuses that of the other in its own error format', async () => {
    const bearer = { authorization: `Bearer ${key}` };
    const path = `/planted/boxes/${plantedId(box.id)}`;
    expect(JSON.parse((await call(path)).text)).toEqual({ id: plantedId(box.id), state: 'ready' });
    for (const headers of [{}, bearer]) {
      const refused = await fetch(`${url}${path}`, { headers });
      expect([refused.status, await refused.json()]).toEqual([
        401,
        { oops: 'unauthorized', text: 'Send Planted-Key.' },
      ]);
    }
    const native = await call(`/v1/boxes/${box.id}`);
    expect([native.status, native.response.headers.get('content-type')]).toEqual([401, 'application/problem+json']);
    expect(native.text).toContain('Bearer cbx_');
    expect(await call('/planted/health', { headers: { 'planted-key': '' } })).toMatchObject({ status: 200 });
  });

  test('an unknown path gets a 404 in the error format of its surface, after authentication', async () => {
    const unknown = await call('/planted/boxes');
    expect([unknown.status, oops(unknown.text)]).toEqual([404, 'not_found']);
    expect(unknown.text).not.toMatch(/\/v1|\/docs/);
    const wrong = await call('/planted/health', { method: 'POST' });
    expect([wrong.status, oops(wrong.text)]).toEqual([405, 'method_not_allowed']);
    expect(wrong.response.headers.get('allow')).toBe('GET');
    expect((await call('/planted/boxes', { key: 'cbx_none' })).status).toBe(401);
    // The shell refuses this path before any route.
    const { response, text } = await rawRequest({ url, key }, '/planted/./health');
    expect([response.statusCode, oops(text)]).toEqual([400, 'invalid_request']);
    // Paths beside the prefix are not affected.
    expect((await call('/plantedly')).response.headers.get('content-type')).toBe('application/problem+json');
  });

  test('the paths of a dialect that is not switched on do not exist', async () => {
    const native = { authorization: `Bearer ${key}` };
    const others = ['/api/v2/execute', '/v1/containers', '/librechat/exec', '/openterminal/execute'];
    for (const path of ['/api/v2/codebox/session/exec', ...others]) {
      const { status, text } = await call(path, { method: 'POST', headers: native });
      expect([path, status, JSON.parse(text)]).toMatchObject([path, 404, { code: 'not_found' }]);
    }
  });

  test('a surface uses its own ids in paths, and box ids in the log', async () => {
    const { status } = await call(`/planted/boxes/${box.id}`);
    expect(status).toBe(404);
    const { response } = await call(`/planted/boxes/${plantedId(box.id)}`);
    const requestId = response.headers.get('x-request-id');
    const line = await eventually(async () => lines.find((each) => each.requestId === requestId && each.status));
    expect(line).toMatchObject({ route: '/planted/boxes/{box}', box: box.id, tenant, status: 200 });
    const series = await (await fetch(`${url}/metrics`)).text();
    expect(series).toContain('route="/planted/boxes/{box}"');
  });

  test('a surface encodes streams in its own frames, and a fault in mid-stream is the last frame', async () => {
    // `print` writes the newline separately, so it may arrive as a second event.
    const code = String.raw`import sys; written = sys.stdout.write("one\n")`;
    expect(await run(code)).toEqual({
      type: 'application/planted',
      bytes: Buffer.concat([frame(0, 'one\n'), frame(2, '')]),
    });
    expect((await run(code, '?then=fault')).bytes).toEqual(Buffer.concat([frame(0, 'one\n'), frame(2, 'gone')]));
  });

  test('scopes, request quotas and the revocation of keys apply to every surface', async () => {
    const path = `/planted/boxes/${plantedId(box.id)}`;
    const reader = await makeKey(['boxes:read']);
    expect((await call(path, { key: reader })).status).toBe(200);
    const refused = await call(`${path}/run`, { method: 'POST', key: reader });
    expect([refused.status, oops(refused.text)]).toEqual([403, 'forbidden']);

    const limited = await operator.admin.tenants.create({ name: 'limited', quotas: { requestsPerMinute: 3 } });
    const few = await makeKey(undefined, limited.id);
    const nowhere = () => call(`/planted/boxes/none`, { key: few });
    // Requests to both surfaces count together.
    await createClient({ url, key: few }).boxes.list().next();
    const responses = [await nowhere(), await nowhere(), await nowhere(), await nowhere()];
    const over = responses.filter(({ status }) => status === 429);
    expect(over.length).toBeGreaterThan(0);
    for (const { text } of over) expect(oops(text)).toBe('quota_exceeded');

    const [, id = ''] = reader.split('_');
    await operator.admin.keys.revoke(id);
    await eventually(async () => (await call(path, { key: reader })).status === 401);
  });

  test('the OpenAPI document of /v1 does not contain routes of other surfaces', async () => {
    const { paths } = (await (await fetch(`${url}/openapi.json`)).json()) as { paths: Record<string, unknown> };
    expect(Object.keys(paths)).toContain('/v1/boxes/{box}');
    expect(Object.keys(paths).filter((path) => path.includes('planted') || path === '/metrics')).toEqual([]);
  });

  test('a surface that claims hosts owns all their paths, serves its own port, and forwards other ports to the box', async () => {
    const at = (host: string, path: string, shown = plantedKey(key)) =>
      rawRequest({ url, key: '' }, path, { headers: { host: `${host}.planted.test`, 'planted-key': shown } });
    const id = plantedId(box.id);
    expect((await at(`49999-${id}`, '/metrics')).text).toBe(`own metrics for 49999-${id}.planted.test`);
    for (const path of ['/healthz', '/docs', '/v1/boxes', '/planted/health']) {
      const { response, text } = await at('api', path);
      expect([path, response.statusCode, oops(text)]).toEqual([path, 404, 'not_found']);
    }
    expect((await at(`5000-${id}`, '/a/../b?c=%2F')).text).toBe('served /a/../b?c=%2F');
    const stranger = await at(`5000-${id}`, '/', '');
    expect([stranger.response.statusCode, oops(stranger.text)]).toEqual([401, 'unauthorized']);
    const nothing = await at(`5001-${id}`, '/');
    expect([nothing.response.statusCode, oops(nothing.text)]).toEqual([502, 'bad_gateway']);
    // On the host of a port, the paths of surfaces belong to the server in the box.
    const own = await rawRequest({ url, key }, '/planted/health', { headers: { host: `5000-${box.id}.localhost` } });
    expect(own.text).toBe('served /planted/health');
  });
});
