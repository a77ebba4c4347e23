import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { makeKey } from '../../services/gateway/http/admission/auth.ts';
import { freePort } from '../free-port.ts';
import { anyDriver, type RunningGateway, startGateway } from './harness.ts';
import { adminKey } from './operator.ts';

describe.each(anyDriver)('a gateway with an admin port, behind a proxy, on the %s driver', (driver) => {
  let gateway: RunningGateway;
  let adminUrl: string;
  beforeAll(async () => {
    const port = await freePort();
    adminUrl = `http://127.0.0.1:${port}`;
    gateway = await startGateway(driver, {
      CODEBOX_ADMIN_KEY: adminKey,
      CODEBOX_ADMIN_PORT: String(port),
      CODEBOX_TRUSTED_PROXIES: '127.0.0.1, 10.0.0.0/8',
    });
  });
  afterAll(() => gateway?.dispose());

  test('the public port and the admin port each serve only their own routes', async () => {
    const status = async (url: string, path: string, key: string) =>
      (await fetch(`${url}${path}`, { headers: { authorization: `Bearer ${key}` } })).status;
    for (const path of ['/metrics', '/v1/admin/tenants', '/v1/admin/audit'])
      expect([path, await status(gateway.url, path, adminKey), await status(adminUrl, path, adminKey)]).toEqual([
        path,
        404,
        200,
      ]);
    for (const path of ['/v1/boxes', '/v1/templates', '/v1/usage'])
      expect([path, await status(gateway.url, path, gateway.key), await status(adminUrl, path, gateway.key)]).toEqual([
        path,
        200,
        404,
      ]);
    const ports = `/v1/boxes/box-${'a'.repeat(26)}/ports/80/`;
    expect(await status(adminUrl, ports, gateway.key)).toBe(404);
    for (const path of ['/healthz', '/readyz', '/openapi.json'])
      expect([path, await status(gateway.url, path, ''), await status(adminUrl, path, '')]).toEqual([path, 200, 200]);
  });

  test('failed authentications count for the client address that the trusted proxy reports, not for forged hops', async () => {
    const statusVia = async (forwarded: string) =>
      (
        await fetch(`${gateway.url}/v1/boxes`, {
          headers: { 'x-api-key': makeKey().key, 'x-forwarded-for': forwarded },
        })
      ).status;
    for (let i = 0; i < 60; i++) expect(await statusVia(`198.51.100.${i}, 203.0.113.7`)).toBe(401);
    expect(await statusVia('203.0.113.7')).toBe(429);
    expect(await statusVia('203.0.113.7, 10.1.2.3')).toBe(429);
    expect(await statusVia('203.0.113.7, 203.0.113.8')).toBe(401);
    expect(await statusVia('nonsense')).toBe(401);
  });
});
