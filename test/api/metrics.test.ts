import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Box } from '#contract';
import { drivers, eventually, type RunningGateway, startGateway } from './harness.ts';
import { connect } from './websocket.ts';

describe.each(drivers.slice(0, 1))('metrics, on the %s driver', (driver) => {
  let gateway: RunningGateway;
  let box: Box;
  beforeAll(async () => {
    gateway = await startGateway(driver, { CODEBOX_WARM_BOXES: '1', CODEBOX_MAX_BOXES: '2' });
    box = await gateway.createBox();
  });
  afterAll(() => gateway?.dispose());

  const read = async () => (await fetch(`${gateway.url}/metrics`)).text();
  /** The value of one series, or 0 if it is missing. */
  const sample = async (series: string) => {
    const line = (await read()).split('\n').find((text) => text.startsWith(`${series} `));
    return Number(line?.slice(series.length + 1) ?? 0);
  };
  const becomes = (series: string, value: number, deadlineMs = 60_000) =>
    eventually(async () => (await sample(series)) === value, deadlineMs);

  test('executions are counted by status and cause, with their run and queue times', async () => {
    await gateway.run(box.id, 'import time; time.sleep(60)', { timeoutSeconds: 0.5 });
    await becomes('codebox_executions_total{status="timeout",cause="timeout",language="python"}', 1);
    expect(await sample('codebox_execution_run_seconds_sum{language="python"}')).toBeGreaterThan(0.4);
    expect(await sample('codebox_execution_queue_seconds_count{language="python"}')).toBe(1);
  });

  test('open streams and WebSockets are counted by route', async () => {
    const streams = 'codebox_open_streams{route="/v1/boxes/{box}/executions"}';
    const init = { method: 'POST', headers: { accept: 'text/event-stream' }, body: '{"code":"input()"}' };
    const stream = await gateway.call(`/v1/boxes/${box.id}/executions`, init);
    await becomes(streams, 1);
    await stream.body?.cancel();
    await becomes(streams, 0);
    const sockets = 'codebox_open_sockets{route="/v1/boxes/{box}/ws"}';
    const { ws } = await connect(gateway, `/v1/boxes/${box.id}/ws`);
    await becomes(sockets, 1);
    ws.close();
    await becomes(sockets, 0);
  });

  test('claims are counted by their kind, and the pool reports its instances', async () => {
    expect(await sample('codebox_pool_target{template="python"}')).toBe(1);
    await becomes('codebox_pool_instances{template="python",state="warm"}', 1, 90_000);
    const claims = (kind: string) => sample(`codebox_claims_total{kind="${kind}",template="python"}`);
    const before = await claims('warm');
    const last = await gateway.createBox();
    expect([await claims('warm'), await claims('refused')]).toEqual([before + 1, 0]);
    expect(await sample('codebox_claim_seconds_count{kind="warm"}')).toBe(before + 1);
    expect((await gateway.post('/v1/boxes', {})).status).toBe(503);
    expect([await claims('refused'), await sample('codebox_queue_waiting')]).toEqual([1, 0]);
    await gateway.client.boxes.delete(last.id);
  });

  test('the database, the driver and the event loop are measured', async () => {
    expect(await sample('codebox_database_up')).toBe(1);
    expect(await sample('codebox_database_connections{state="idle"}')).toBeGreaterThan(0);
    expect(
      await sample(`codebox_driver_call_seconds_count{driver="${driver}",call="create",outcome="ok"}`),
    ).toBeGreaterThan(0);
    expect(await read()).toMatch(/^nodejs_eventloop_lag_p99_seconds \d/m);
  });

  test('a box that stops responding counts as unreachable, and no series names a box', async () => {
    // An instance that is being created has its place already and cannot be claimed yet.
    await becomes('codebox_pool_instances{template="python",state="warm"}', 1, 90_000);
    const dying = await gateway.createBox();
    const command = 'exec > /dev/null 2>&1; sleep 1; kill -KILL $PPID';
    const ended = await gateway.post<{ status: string }>(`/v1/boxes/${dying.id}/commands`, { command });
    expect(ended.body.status).toBe('lost');
    expect(await sample('codebox_box_server_errors_total{kind="unreachable"}')).toBeGreaterThan(0);
    const text = await read();
    for (const { id } of [box, dying]) expect(text).not.toContain(id);
  });
});
