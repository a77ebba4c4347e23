import { execFile } from 'node:child_process';
import { join, resolve } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { ApiKey, NewApiKey, Tenant } from '#contract';
import { anyDriver, eventually, type RunningGateway, startGateway } from './api/harness.ts';
import { adminKey } from './api/operator.ts';

const project = resolve(import.meta.dirname, '..');

describe.each(anyDriver)('the command line of the operator, on the %s driver', (driver) => {
  let gateway: RunningGateway;
  beforeAll(async () => {
    gateway = await startGateway(driver, { CODEBOX_ADMIN_KEY: adminKey });
  });
  afterAll(() => gateway?.dispose());

  const run = (args: string[], env: Record<string, string> = {}) =>
    new Promise<{ code: number; out: string; err: string }>((done) => {
      const all = { ...process.env, CODEBOX_URL: gateway.url, CODEBOX_ADMIN_KEY: adminKey, ...env };
      const program = [join(project, 'scripts/admin.ts'), ...args];
      execFile(process.execPath, program, { env: all, timeout: 60_000 }, (error, out, err) =>
        done({ code: typeof error?.code === 'number' ? error.code : error ? -1 : 0, out, err }),
      );
    });
  const json = async <T>(...args: string[]): Promise<T> => {
    const { code, out, err } = await run([...args, '--json']);
    expect([code, err]).toEqual([0, '']);
    return JSON.parse(out) as T;
  };

  test('tenants and keys can be created, listed, updated and ended', async () => {
    const tenant = await json<Tenant>('tenants', 'create', 'acme', '--boxes', '3', '--requests-per-minute', '600');
    expect(tenant).toMatchObject({ name: 'acme', quotas: { boxes: 3, requestsPerMinute: 600, storageMb: null } });
    const changed = await json<Tenant>('tenants', 'update', tenant.id, '--boxes', 'none', '--name', 'Acme');
    expect(changed).toMatchObject({ name: 'Acme', quotas: { boxes: null, requestsPerMinute: 600 } });
    const key = await json<NewApiKey>(
      ...['keys', 'create', '--tenant', tenant.id, '--name', 'ci', '--scopes', 'run,files', '--expires', '30d'],
    );
    expect(key.scopes).toEqual(['run', 'files']);
    expect(Date.parse(key.expiresAt ?? '') - Date.parse(key.createdAt)).toBe(30 * 86_400_000);
    const next = await json<NewApiKey>('keys', 'rotate', key.id, '--overlap', '0');
    expect((await json<ApiKey[]>('keys', 'list', '--tenant', tenant.id)).map(({ id, state }) => [id, state])).toEqual([
      [next.id, 'active'],
      [key.id, 'revoked'],
    ]);
    const table = await run(['tenants', 'list']);
    expect(table.out).toMatch(/^id +name +state +quotas +createdAt$/m);
    expect(table.out).toMatch(new RegExp(`^${tenant.id} +Acme +active +requestsPerMinute=600 +`, 'm'));
    expect((await run(['keys', 'revoke', next.id])).out).toContain('is revoked');
    expect((await run(['tenants', 'suspend', tenant.id])).out).toMatch(/^state +suspended$/m);
    expect((await run(['tenants', 'delete', tenant.id])).out).toContain('is deleted');
    const log = await json<{ action: string }[]>('audit', '--tenant', tenant.id, '--limit', '2');
    expect(log.map(({ action }) => action)).toEqual(['tenant.delete', 'tenant.update']);
    const usage = await run(['tenants', 'usage', tenant.id]);
    expect([usage.code, usage.out.split(' ')[0]]).toEqual([0, 'day']);
  });

  test('control characters in names are not passed to the terminal', async () => {
    const { out } = await run(['tenants', 'create', 'a\u001b[31mb']);
    expect(out).toContain('a\ufffd[31mb');
  });

  test.each([
    [['tenants', 'explode'], 'There is no command'],
    [['toString'], 'There is no command'],
    [['tenants', 'create'], 'takes one name or id'],
    [['tenants', 'create', 'x', '--boxes', 'many'], '--boxes takes a whole number'],
    [['tenants', 'create', 'x', '--apples', '1'], '--apples'],
    [['tenants', 'list', '--boxes', '1'], 'does not belong'],
    [['keys', 'create', '--name', 'x'], '--tenant is missing'],
    [['keys', 'create', '--name', 'x', '--tenant', 't', '--scopes', 'all'], 'is not a scope'],
    [['keys', 'rotate', 'x', '--overlap', 'soon'], 'takes a time'],
  ])('%j is a usage error and exits with 2', async (args, text) => {
    const { code, out, err } = await run(args);
    expect([code, out]).toEqual([2, '']);
    expect(err).toContain(text);
  });

  test('a refusal by the gateway is printed in plain words and exits with 1', async () => {
    const missing = await run(['tenants', 'show', 'ten-nobody']);
    expect(missing).toEqual({ code: 1, out: '', err: 'There is no such tenant.\n' });
    const wrong = await run(['tenants', 'list'], { CODEBOX_ADMIN_KEY: 'not-the-key' });
    expect([wrong.code, wrong.err]).toEqual([1, expect.stringContaining('admin key is needed')]);
    const faulty = await run(['tenants', 'create', '']);
    expect([faulty.code, faulty.err]).toEqual([1, expect.stringContaining('/name')]);
    const away = await run(['tenants', 'list', '--url', 'http://127.0.0.1:9']);
    expect([away.code, away.err]).toEqual([1, expect.stringContaining('cannot be reached')]);
    const keyless = await run(['tenants', 'list'], { CODEBOX_ADMIN_KEY: '' });
    expect([keyless.code, keyless.err]).toEqual([2, expect.stringContaining('CODEBOX_ADMIN_KEY is not set')]);
    const help = await run(['--help']);
    expect([help.code, help.out]).toEqual([0, expect.stringContaining('tenants create')]);
  });

  test('the gateway never prints the admin key', async () => {
    await eventually(async () => (await run(['tenants', 'list'])).code === 0);
    expect(gateway.output()).not.toContain(adminKey);
  });
});
