import { context, trace } from '@opentelemetry/api';
import { AsyncLocalStorageContextManager } from '@opentelemetry/context-async-hooks';
import { InMemorySpanExporter, type ReadableSpan, SimpleSpanProcessor, TracerProvider } from '@opentelemetry/sdk-trace';
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import { type BoxCall, startBoxCall } from './box-call.ts';
import { inSpan } from './span.ts';

const exporter = new InMemorySpanExporter();

beforeAll(() => {
  context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable());
  trace.setGlobalTracerProvider(new TracerProvider({ spanProcessors: [new SimpleSpanProcessor({ exporter })] }));
});
beforeEach(() => exporter.reset());
afterAll(() => {
  trace.disable();
  context.disable();
});

/** The spans of a call within a trace, by name. */
const traceCall = async (use: (call: BoxCall) => void): Promise<Map<string, ReadableSpan>> => {
  const root = trace.getTracer('test').startSpan('root');
  await context.with(trace.setSpan(context.active(), root), () =>
    inSpan(
      () => ({ name: 'request' }),
      async () => {
        const call = startBoxCall('PUT', 'executions/exe-1');
        if (!call) throw new Error('the call is not traced');
        use(call);
      },
    ),
  );
  return new Map(exporter.getFinishedSpans().map((span) => [span.name, span]));
};

const millis = ([seconds, nanos]: ReadableSpan['startTime']) => seconds * 1000 + nanos / 1e6;

test('without a trace no trace context is sent', () => {
  expect(startBoxCall('GET', 'contexts')).toBeUndefined();
});

test('a box that names another trace has no span', async () => {
  const spans = await traceCall((call) => {
    call.responded(200, { traceresponse: `00-${'a'.repeat(32)}-${'b'.repeat(16)}-01`, 'server-timing': 'box;dur=1' });
    call.event({ seq: 2, type: 'done', status: 'ok', durationMs: 1 });
    call.end();
  });
  expect([...spans.keys()].sort()).toEqual(['box PUT executions', 'request']);
});

test('absurd times and statuses of a box are confined to its call', async () => {
  const spans = await traceCall((call) => {
    call.responded(200, { traceresponse: call.headers.traceparent, 'server-timing': 'box;dur=999999999999' });
    call.event({ seq: 2, type: 'done', status: 'x'.repeat(1000), durationMs: 1e300 });
    call.end();
  });
  const [outer, inner] = [spans.get('box PUT executions'), spans.get('run')];
  if (!outer || !inner) throw new Error('a span is missing');
  expect(millis(inner.startTime)).toBeGreaterThanOrEqual(Math.floor(millis(outer.startTime)) - 1);
  expect(millis(inner.endTime)).toBeLessThanOrEqual(millis(outer.endTime) + 1);
  expect(inner.attributes['codebox.status']).toBe('other');
  for (const span of spans.values()) expect(millis(span.endTime)).toBeLessThanOrEqual(millis(outer.endTime) + 1000);
});
