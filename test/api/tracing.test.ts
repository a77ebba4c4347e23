import { randomBytes } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Box } from '#contract';
import { anyDriver, eventually, type GatewayProcess, startGatewayProcess } from './harness.ts';
import { startOtlpReceiver } from './otlp-receiver.ts';

describe.each(anyDriver)('traces, on the %s driver', (driver) => {
  let collector: Awaited<ReturnType<typeof startOtlpReceiver>>;
  let gateway: GatewayProcess;
  let box: Box;
  beforeAll(async () => {
    collector = await startOtlpReceiver();
    gateway = await startGatewayProcess(driver, {
      OTEL_EXPORTER_OTLP_ENDPOINT: collector.url,
      OTEL_EXPORTER_OTLP_PROTOCOL: 'http/json',
      OTEL_BSP_SCHEDULE_DELAY: '100',
      CODEBOX_LOG_LEVEL: 'info',
    });
    box = await gateway.createBox();
    await gateway.run(box.id, '1');
  });
  afterAll(async () => {
    await gateway?.dispose();
    await collector?.[Symbol.asyncDispose]();
  });

  /** Sends a request within a trace of the caller, and resolves with the spans of that trace once the request's span has arrived. */
  const trace = async (path: string, init: RequestInit = {}) => {
    const [traceId, caller] = [randomBytes(16).toString('hex'), randomBytes(8).toString('hex')];
    const headers = { ...init.headers, traceparent: `00-${traceId}-${caller}-01` };
    const response = await gateway.call(path, { ...init, headers });
    const text = await response.text();
    const ofTrace = () => collector.spans.filter((span) => span.traceId === traceId);
    await eventually(async () => ofTrace().some((span) => span.parent === caller));
    return { spans: ofTrace(), caller, traceId, text, status: response.status };
  };

  test.each(['application/json', 'text/event-stream'])(
    'one trace spans the request, the box server and the run: %s',
    async (accept) => {
      const init = {
        method: 'POST',
        headers: { accept },
        body: JSON.stringify({ code: 'import time; time.sleep(0.2)' }),
      };
      const { spans, caller, text } = await trace(`/v1/boxes/${box.id}/executions`, init);
      expect(text).toContain('"status":"ok"');
      const request = spans.find((span) => span.parent === caller);
      expect(request).toMatchObject({ name: 'POST /v1/boxes/{box}/executions', service: 'codebox-gateway', kind: 2 });
      const call = spans.find((span) => span.name === 'box PUT executions');
      expect(call).toMatchObject({ parent: request?.id, service: 'codebox-gateway', kind: 3 });
      const inBox = spans.find((span) => span.parent === call?.id);
      expect(inBox).toMatchObject({ name: 'PUT executions', service: 'codebox-box', kind: 2 });
      const run = spans.find((span) => span.parent === inBox?.id);
      expect(run).toMatchObject({ name: 'run', service: 'codebox-box', attributes: { 'codebox.status': 'ok' } });
      // The spans of run, box server and request are nested in time.
      const [outer, middle, inner] = [request, inBox, run];
      if (!outer || !middle || !inner) throw new Error('a span is missing');
      expect(inner.end - inner.start).toBeGreaterThan(200_000_000n);
      expect(inner.start).toBeGreaterThanOrEqual(middle.start);
      expect(middle.start).toBeGreaterThanOrEqual(outer.start);
      expect(inner.end).toBeLessThanOrEqual(outer.end);
      const statement = spans.find((span) => span.name === 'INSERT executions');
      expect(statement).toMatchObject({ parent: request?.id, attributes: { 'db.system.name': 'postgresql' } });
    },
  );

  test('the trace of a new box contains the driver calls, and no span contains data of the caller', async () => {
    const body = JSON.stringify({ env: { TOKEN: 'hush-hush' }, files: [{ path: 'hush-hush.txt', text: 'hush-hush' }] });
    const { spans, text } = await trace('/v1/boxes', { method: 'POST', body });
    expect(spans.map((span) => span.name)).toEqual(expect.arrayContaining(['claim', 'provision', `${driver} create`]));
    const replacer = (_: string, value: unknown) => (typeof value === 'bigint' ? String(value) : value);
    expect(JSON.stringify(collector.spans, replacer)).not.toContain('hush-hush');
    await gateway.client.boxes.delete((JSON.parse(text) as Box).id);
  });

  test('the log line of a request contains its trace id, also if the request fails', async () => {
    const { spans, traceId, status } = await trace('/v1/boxes/missing');
    expect(status).toBe(404);
    expect(spans.find((span) => span.kind === 2)?.attributes).toMatchObject({ 'http.response.status_code': 404 });
    const line = await eventually(async () =>
      gateway
        .output()
        .split('\n')
        .find((text) => text.includes(traceId)),
    );
    expect(JSON.parse(line)).toMatchObject({ trace_id: traceId, route: '/v1/boxes/{box}', status: 404 });
  });

  test('a request without a trace starts a new one, and health probes are not traced', async () => {
    const before = collector.spans.length;
    await fetch(`${gateway.url}/healthz`);
    await gateway.get('/v1/templates');
    const request = await eventually(async () =>
      collector.spans.slice(before).find((span) => span.name === 'GET /v1/templates'),
    );
    expect(request.parent ?? '').toBe('');
    expect(collector.spans.map((span) => span.name).join()).not.toContain('healthz');
  });
});
