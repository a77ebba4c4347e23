import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Box, Ticket } from '#contract';
import { keyId, makeKey } from '../../services/gateway/http/admission/auth.ts';
import { openStore } from '../../services/gateway/store/store.ts';
import { anyDriver, databaseUrl, eventually, type RunningGateway, startGateway } from './harness.ts';
import { rawRequest, startServer, uploadServers } from './servers.ts';
import { connect, refusalOf } from './websocket.ts';

describe.each(anyDriver)('tickets on the %s driver', (driver) => {
  let gateway: RunningGateway;
  let box: Box;
  beforeAll(async () => {
    gateway = await startGateway(driver, { CODEBOX_SWEEP_SECONDS: '1' });
    box = await gateway.createBox();
  });
  afterAll(() => gateway?.dispose());

  const makeTicket = async (id = box.id): Promise<Ticket> => {
    const { status, body } = await gateway.post<Ticket>(`/v1/boxes/${id}/tickets`, {});
    expect(status).toBe(201);
    return body;
  };

  test('a ticket is returned once and expires after a minute', async () => {
    const { ticket, expiresAt } = await makeTicket();
    expect(ticket).toMatch(/^tkt_[\w-]{43}$/);
    const left = Date.parse(expiresAt) - Date.now();
    expect(left).toBeGreaterThan(30_000);
    expect(left).toBeLessThan(90_000);
  });

  test('only the tenant of a box can create tickets for it, and only until the box ends', async () => {
    const key = await gateway.addTenant();
    const foreign = await gateway.post(`/v1/boxes/${box.id}/tickets`, {}, { authorization: `Bearer ${key}` });
    expect([foreign.status, foreign.body.code]).toEqual([404, 'not_found']);
    const gone = await gateway.createBox();
    await gateway.call(`/v1/boxes/${gone.id}`, { method: 'DELETE' });
    expect((await gateway.post(`/v1/boxes/${gone.id}/tickets`, {})).status).toBe(410);
  });

  test('a ticket is not accepted for ordinary requests, and a refused upgrade gets a problem', async () => {
    const { ticket } = await makeTicket();
    const read = await fetch(`${gateway.url}/v1/boxes/${box.id}?ticket=${ticket}`);
    expect(read.status).toBe(401);
    const refusal = await refusalOf(gateway, `/v1/boxes/${box.id}/terminal?ticket=tkt_${'x'.repeat(43)}`, {});
    expect(refusal).toMatchObject({ status: 401, type: 'application/problem+json', problem: { code: 'unauthorized' } });
    expect(refusal).toMatchObject({ problem: { detail: expect.stringContaining('ticket is not valid') } });
  });

  test('connections opened with a key or its tickets end when it is revoked', async () => {
    await uploadServers(gateway, box.id, 'sockets.py');
    await startServer(gateway, box.id, 'python3 sockets.py 6000', 6000);
    const { key, id, hash } = makeKey();
    const store = await openStore(await databaseUrl(gateway.dataDir), () => {});
    const { tenantId } = (await store.keys.find(keyId(gateway.key) ?? '')) ?? { tenantId: '' };
    await store.keys.add({ id, hash, tenantId, name: 'second' });
    const make = async () =>
      (await gateway.post<Ticket>(`/v1/boxes/${box.id}/tickets`, {}, { authorization: `Bearer ${key}` })).body.ticket;
    const at = (path: string) => `/v1/boxes/${box.id}/${path}`;
    const opened = await rawRequest(gateway, at(`ports/6000/?ticket=${await make()}`), {
      headers: { authorization: '' },
    });
    const cookie = opened.response.headers['set-cookie']?.[0]?.split(';')[0] ?? '';
    const page = async () =>
      (await rawRequest(gateway, at('ports/6000/'), { headers: { authorization: '', cookie } })).response.statusCode;
    expect(await page()).toBe(200);
    const sockets = [
      await connect(gateway, at(`terminal?ticket=${await make()}`), {}),
      await connect(gateway, at(`ports/6000/echo?ticket=${await make()}`), {}),
      await connect(gateway, at('ports/6000/echo'), { cookie }),
      await connect(gateway, at('ports/6000/echo'), { authorization: `Bearer ${key}` }),
    ];
    const stays = await connect(gateway, at('ports/6000/echo'));
    const endless = await gateway.call(at('ports/6000/endless'), { headers: { authorization: `Bearer ${key}` } });
    const unused = await make();
    await store.keys.revoke(id);
    await store.close();
    await eventually(async () => (await page()) === 401);
    expect(await refusalOf(gateway, at(`terminal?ticket=${unused}`), {})).toMatchObject({ status: 401 });
    for (const { closed } of sockets)
      expect(await closed).toEqual({ code: 1008, reason: 'The key is no longer valid.' });
    await expect(endless.text()).rejects.toThrow();
    stays.sendJson({ still: 'here' });
    await stays.json(({ still }) => still === 'here');
    stays.ws.terminate();
  });
});
