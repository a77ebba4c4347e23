import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Box, Problem } from '#contract';
import { anyDriver, drivers, eventually, type GatewayProcess, startGatewayProcess, startGateways } from './harness.ts';
import { type PoolView, viewPool } from './pool-view.ts';

/** On a busy machine one box may take ten seconds to start. */
const patienceMs = 300_000;

describe.each(drivers)('many boxes at once on the %s driver', (driver) => {
  // The pool does not depend on the driver, so only one driver gets the large crowd.
  const [warm, ceiling, requested] = anyDriver.includes(driver) ? [4, 6, 30] : [2, 4, 8];
  let gateway: GatewayProcess;
  let other: GatewayProcess;
  let view: PoolView;
  beforeAll(async () => {
    [gateway, other] = (await startGateways(driver, 2, {
      CODEBOX_WARM_BOXES: String(warm),
      CODEBOX_SWEEP_SECONDS: '1',
      CODEBOX_MAX_BOXES: String(ceiling),
      CODEBOX_QUEUE_SECONDS: '2',
    })) as [GatewayProcess, GatewayProcess];
    view = await viewPool(gateway, driver);
    await view.full(warm);
  }, patienceMs);
  afterAll(async () => {
    await view?.[Symbol.asyncDispose]();
    await gateway?.dispose();
  });

  /** Samples the instances until the returned function is called, which resolves with the highest number seen at once. */
  const watchCeiling = () => {
    const stop = new AbortController();
    let most = 0;
    const watching = (async () => {
      while (!stop.signal.aborted) {
        most = Math.max(most, (await view.instances()).length);
        await sleep(100, undefined, { signal: stop.signal }).catch(() => {});
      }
    })();
    return async () => {
      stop.abort();
      await watching;
      return most;
    };
  };

  const useOnce = async () => {
    const response = await gateway.post<Box & { code?: string }>('/v1/boxes', {});
    if (response.status !== 201) return response;
    const { id } = response.body;
    const { text, executionCount } = await gateway.run(id, 'import os; os.listdir()');
    expect([text, executionCount]).toEqual(['[]', 1]);
    await gateway.run(id, 'open("mine", "w").close()');
    const { status } = await gateway.call(`/v1/boxes/${id}`, { method: 'DELETE' });
    expect(status, gateway.output()).toBe(204);
    return response;
  };

  test(
    'every request gets a box of its own or a timely 503 with Retry-After; the ceiling holds and nothing is left over',
    async () => {
      const mostAtOnce = watchCeiling();
      const responses = await Promise.all(Array.from({ length: requested }, useOnce)).finally(mostAtOnce);
      expect(await mostAtOnce()).toBeLessThanOrEqual(ceiling);
      const had = responses.filter(({ status }) => status === 201);
      const refused = responses.filter(({ status }) => status !== 201);
      // On a busy machine a warm instance may miss its probe and be replaced, so not all claims are warm.
      expect(had.filter(({ body }) => body.startup?.kind === 'warm').length).toBeGreaterThan(0);
      expect(new Set(had.map(({ body }) => body.id)).size).toBe(had.length);
      for (const { status, body, headers } of refused) {
        expect([status, body.code]).toEqual([503, 'unavailable']);
        expect(Number(headers.get('retry-after'))).toBeGreaterThan(0);
      }
      await view.full(warm);
      expect((await gateway.get<{ items: Box[] }>('/v1/boxes')).body.items).toEqual([]);
      expect(await view.metric('codebox_queue_waiting')).toBe(0);
      expect(await view.instances()).toHaveLength(warm);
    },
    patienceMs,
  );

  test('concurrent reuse requests at two gateways get one box: new for one of them, reused for the others', async () => {
    const create = ({ post }: GatewayProcess) => post<Box>('/v1/boxes', { user: 'grace', reuse: true });
    const responses = await Promise.all(Array.from({ length: requested }, (_, i) => create(i % 2 ? gateway : other)));
    expect(new Set(responses.map(({ body }) => body.id)).size).toBe(1);
    const outcomes = responses.map(({ status, body }) => `${status} ${body.continuity}`).sort();
    expect(outcomes).toEqual([...Array.from({ length: requested - 1 }, () => '200 reused'), '201 new']);
    await gateway.call(`/v1/boxes/${responses[0]?.body.id}`, { method: 'DELETE' });
  });
});

describe.each(anyDriver)('waiting for room on the %s driver', (driver) => {
  let gateway: GatewayProcess;
  beforeAll(async () => {
    gateway = await startGatewayProcess(driver, { CODEBOX_MAX_BOXES: '1', CODEBOX_QUEUE_SECONDS: '60' });
  });
  afterAll(() => gateway?.dispose());

  const waiting = async (n: number) => {
    const text = await (await fetch(`${gateway.url}/metrics`)).text();
    return text.includes(`\ncodebox_queue_waiting ${n}\n`);
  };

  test('a tenant with many queued requests does not starve another tenant', async () => {
    const others = { authorization: `Bearer ${await gateway.addTenant()}` };
    const order: string[] = [];
    const remove = (id: string) => gateway.call(`/v1/boxes/${id}`, { method: 'DELETE' });
    const create = async (name: string, headers = {}) => {
      const { status, body } = await gateway.post<Box>('/v1/boxes', {}, headers);
      order.push(`${name} ${status}`);
      return body.id;
    };
    const first = await create('many');
    const many = Array.from({ length: 20 }, () => create('many'));
    await eventually(() => waiting(20));
    const one = create('one', others);
    await eventually(() => waiting(21));
    await remove(first);
    await remove(await Promise.race(many));
    await one;
    expect(order).toEqual(['many 201', 'many 201', 'one 201']);
    // A gateway that stops refuses the rest at once, so that clients turn to another one.
    const stopped = gateway.stop();
    await Promise.allSettled(many);
    await stopped;
    expect(new Set(order.slice(3))).toEqual(new Set(['many 503']));
    await gateway.restart();
    await gateway.call(`/v1/boxes/${await one}`, { method: 'DELETE', headers: others });
  });

  test('deleting a queued box ends it and frees its place in the queue', async () => {
    for await (const box of gateway.client.boxes.list()) await gateway.client.boxes.delete(box.id);
    const held = await gateway.createBox();
    const created = gateway.post<{ code: string }>('/v1/boxes', { user: 'impatient' });
    const found = await eventually(async () => {
      const { items } = (await gateway.get<{ items: Box[] }>('/v1/boxes?user=impatient')).body;
      return items[0]?.state === 'creating' && items[0];
    });
    expect((await gateway.call(`/v1/boxes/${found.id}`, { method: 'DELETE' })).status).toBe(204);
    expect((await created).status).toBe(410);
    expect((await gateway.get<Box>(`/v1/boxes/${found.id}`)).body.state).toBe('deleted');
    expect(await waiting(0)).toBe(true);
    await gateway.client.boxes.delete(held.id);
  });
});

describe.each(anyDriver)('the memory of boxes on the %s driver', (driver) => {
  const ceilingMb = 1700;
  let gateway: GatewayProcess;
  beforeAll(async () => {
    gateway = await startGatewayProcess(driver, {
      CODEBOX_MAX_BOXES: '10',
      CODEBOX_MAX_MEMORY_MB: String(ceilingMb),
      CODEBOX_QUEUE_SECONDS: '120',
      CODEBOX_SWEEP_SECONDS: '1',
    });
  });
  afterAll(() => gateway?.dispose());

  const sample = async (series: string) => {
    const text = await (await fetch(`${gateway.url}/metrics`)).text();
    return Number(new RegExp(`^${series} (.+)$`, 'm').exec(text)?.[1]);
  };
  const isPromised = async (memoryMb: number) => (await sample('codebox_memory_promised_bytes')) === memoryMb * 2 ** 20;
  const large = { limits: { memoryMb: 1024 } };

  test('is not promised twice: a request for too much waits or is refused, while a smaller one is granted', async () => {
    const others = { authorization: `Bearer ${await gateway.addTenant()}` };
    expect(await sample('codebox_memory_ceiling_bytes')).toBe(ceilingMb * 2 ** 20);
    const first = await gateway.createBox(large);
    const second = gateway.post<Box>('/v1/boxes', large);
    await eventually(async () => (await sample('codebox_queue_waiting')) === 1);
    const small = await gateway.post<Box>('/v1/boxes', { limits: { memoryMb: 512 } }, others);
    expect(small.status).toBe(201);
    expect(await isPromised(1536)).toBe(true);
    await gateway.client.boxes.delete(first.id);
    const { status, body: box } = await second;
    expect(status).toBe(201);

    await gateway.stop();
    await gateway.restart({ CODEBOX_QUEUE_SECONDS: '0' });
    const refused = await gateway.post<Problem>('/v1/boxes', large);
    expect([refused.status, refused.body.code]).toEqual([503, 'unavailable']);
    expect(refused.body.detail).toContain('too much of their memory, are in use for one more with 1024 MiB');
    expect(Number(refused.headers.get('retry-after'))).toBeGreaterThan(0);
    const never = await gateway.post<Problem>('/v1/boxes', { limits: { memoryMb: 4096 } });
    expect([never.status, never.body.errors]).toEqual([
      400,
      [{ pointer: '/limits/memoryMb', detail: `must be at most ${ceilingMb}` }],
    ]);

    // A paused box keeps its memory; a hibernated one has none.
    await gateway.client.boxes.pause(box.id);
    expect(await isPromised(1536)).toBe(true);
    await gateway.client.boxes.resume(box.id);
    await gateway.client.boxes.hibernate(box.id);
    await eventually(() => isPromised(512));
    await gateway.call(`/v1/boxes/${small.body.id}`, { method: 'DELETE', headers: others });
  });
});
