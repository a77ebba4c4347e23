import { execFile } from 'node:child_process';
import { stat } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { errorCodes, errorReasons } from '#contract';
import { problemReasons } from '../../services/http/problems/reasons.ts';
import { drivers, eventually, type GatewayProcess, startGatewayProcess } from './harness.ts';

describe.each(drivers.slice(0, 1))('the gateway itself, on the %s driver', (driver) => {
  let gateway: GatewayProcess;
  beforeAll(async () => {
    gateway = await startGatewayProcess(driver);
  });
  afterAll(() => gateway?.dispose());

  test('the curl line that the gateway prints works as pasted, and the key file is private', async () => {
    expect((await stat(join(gateway.dataDir, 'dev-key'))).mode & 0o777).toBe(0o600);
    const line = gateway.output().match(/^ *curl .*$/m)?.[0] ?? '';
    const { stdout } = await promisify(execFile)('bash', ['-c', line], { timeout: 60_000 });
    expect(JSON.parse(stdout)).toMatchObject({ status: 'ok', text: '2' });
  });

  test('health, readiness, the API document and its page need no key', async () => {
    expect(await (await fetch(`${gateway.url}/healthz`)).json()).toEqual({ status: 'ok' });
    expect((await fetch(`${gateway.url}/readyz`)).status).toBe(200);
    const document = (await (await fetch(`${gateway.url}/openapi.json`)).json()) as { openapi: string; paths: object };
    expect(document.openapi).toBe('3.1.0');
    expect(Object.keys(document.paths)).toContain('/v1/run');
    const page = await (await fetch(`${gateway.url}/docs`)).text();
    for (const [, path] of page.matchAll(/(?:src|href)="(\/[^"]+)"/g)) {
      expect([path, (await fetch(`${gateway.url}${path}`)).status]).toEqual([path, 200]);
    }
    expect(page).not.toMatch(/https?:\/\//);
  });

  test('the type of a problem is the URL of a page that explains it, in the requested format', async () => {
    const refused = await fetch(`${gateway.url}/v1/boxes`);
    const { type, code } = (await refused.json()) as { type: string; code: string };
    const address = new URL(type, refused.url);
    const read = async (accept: string, path = address.pathname) => {
      const response = await fetch(`${gateway.url}${path}`, { headers: { accept } });
      return `${response.status} ${response.headers.get('content-type')?.split(';')[0]} ${await response.text()}`;
    };
    expect(await read('*/*')).toMatch(/^200 text\/markdown ## unauthorized\n\n401 Unauthorized\./);
    expect(await read('text/html,application/xhtml+xml,*/*;q=0.8')).toMatch(
      /^200 text\/html .*<h1>unauthorized<\/h1>/s,
    );
    expect(await read('application/json')).toMatch(/^200 application\/json \{"code":"unauthorized","status":401/);
    for (const one of errorCodes) {
      expect(await read('*/*', `/problems/${one}`)).toMatch(/^200 /);
      expect(await read('text/html', '/problems')).toContain(`href="/problems/${one}"`);
    }
    for (const reason of errorReasons) {
      const { code } = problemReasons[reason];
      expect(await read('*/*', `/problems/${code}`)).toContain(`- \`${reason}\`: `);
      expect(await read('text/html', `/problems/${code}`)).toContain(`<code>${reason}</code>`);
    }
    expect(await read('*/*', '/problems/constructor')).toMatch(/^404 /);
    expect(code).toBe('unauthorized');
  });

  test('the root returns an index of the API to a program and redirects a browser to the documentation', async () => {
    const response = await fetch(gateway.url);
    const index = (await response.json()) as Record<string, string>;
    for (const [name, path] of Object.entries(index)) {
      if (name !== 'name') expect([path, (await fetch(`${gateway.url}${path}`)).status]).toEqual([path, 200]);
    }
    const browser = { accept: 'text/html,application/xhtml+xml,*/*;q=0.8' };
    const shown = await fetch(gateway.url, { headers: browser, redirect: 'manual' });
    expect([shown.status, shown.headers.get('location')]).toEqual([302, '/docs']);
  });

  test('metrics are labelled by route pattern, never by box', async () => {
    const box = await gateway.createBox();
    await gateway.run(box.id, '1');
    const metrics = async () => (await fetch(`${gateway.url}/metrics`)).text();
    // The run of the curl line above counts as well, and its box may still be ending.
    const counted = /codebox_executions_total\{status="ok",cause="none",language="python"\} [12]$/m;
    await eventually(async () => counted.test(await metrics()));
    await eventually(async () => /codebox_boxes\{state="ready"\} 1$/m.test(await metrics()));
    const text = await metrics();
    expect(text).toMatch(
      /codebox_http_request_duration_seconds_count\{method="POST",route="\/v1\/boxes\/\{box\}\/executions",status="200"\} 1/,
    );
    expect(text).not.toContain(box.id);
  });

  test('a response that bypasses Hono is counted with its own status', async () => {
    const box = await gateway.createBox();
    const file = `/v1/boxes/${box.id}/files/three.txt`;
    await gateway.call(file, { method: 'PUT', body: 'abc' });
    const part = await gateway.call(file, { headers: { range: 'bytes=1-1' } });
    expect([part.status, await part.text()]).toEqual([206, 'b']);
    const text = await (await fetch(`${gateway.url}/metrics`)).text();
    expect(text).toMatch(/_count\{method="GET",route="\/v1\/boxes\/\{box\}\/files\/\{path\}",status="206"\} 1/);
  });

  test('a valid request id is returned, and an invalid one is replaced', async () => {
    const id = async (given: string) =>
      (await fetch(`${gateway.url}/healthz`, { headers: { 'x-request-id': given } })).headers.get('x-request-id');
    expect(await id('abc-1')).toBe('abc-1');
    expect(await id('a b')).toMatch(/^[0-9a-f-]{36}$/);
    expect(await id('x'.repeat(500))).toMatch(/^[0-9a-f-]{36}$/);
  });

  test('the output of the gateway does not contain the key', () => {
    expect(gateway.output()).not.toContain(gateway.key);
  });
});
