import { context, type SpanContext, SpanKind, trace } from '@opentelemetry/api';
import { failSpan } from './span.ts';

/** The name of the tracer for work inside boxes: its spans belong to a service of their own. */
export const boxTracerName = 'codebox-box';

const tracer = trace.getTracer('codebox-gateway');
const boxTracer = trace.getTracer(boxTracerName);

/**
 * A call of a box within a trace. The box has no network, so the gateway records the span of its side for it: the response of the box
 * names the span it worked under and its duration. The box is not trusted: the span is exported only when the box has named it, and never
 * extends beyond the call.
 */
export interface BoxCall {
  /** Headers to send with the request. */
  headers: Record<string, string>;
  /** Records the head of the response. */
  responded(status: number, headers: Record<string, string | string[] | undefined>): void;
  /** Records an event of the response. */
  event(value: unknown): void;
  /** Ends the spans of the call. */
  end(failure?: string): void;
}

/** Whether a trace is being recorded. */
export const isTraced = (): boolean => trace.getActiveSpan()?.isRecording() === true;

/** Starts to trace a call; returns undefined when no trace is being recorded. `path` is the part after `/codebox/`. */
export const startBoxCall = (method: string, path: string): BoxCall | undefined => {
  if (!isTraced()) return undefined;
  // Only the first segment names the call; the rest is ids and file paths.
  const what = /^[a-z:]+/.exec(path)?.[0] ?? '';
  const { startTime, now } = startClock();
  const options = { startTime, attributes: { 'http.request.method': method, 'codebox.call': what } };
  const call = tracer.startSpan(`box ${method} ${what}`, { ...options, kind: SpanKind.CLIENT });
  const within = trace.setSpan(context.active(), call);
  const box = boxTracer.startSpan(`${method} ${what}`, { ...options, kind: SpanKind.SERVER }, within);
  const parent = toTraceParent(box.spanContext());
  let hasJoined = false;
  let hasRun = false;
  let endedAt: number | undefined;

  return {
    headers: { traceparent: parent },
    responded(status, headers) {
      call.setAttribute('http.response.status_code', status);
      hasJoined = headers.traceresponse === parent;
      const tookMs = /^box;dur=(\d{1,12}(?:\.\d{1,6})?)$/.exec(String(headers['server-timing'] ?? ''))?.[1];
      if (tookMs !== undefined) endedAt = startTime + Number(tookMs);
    },
    event(value) {
      const done = readDone(value);
      if (!done || !hasJoined || hasRun) return;
      hasRun = true;
      // A streamed run ends with its last event, not with the head of the response.
      endedAt = now();
      const runTime = { startTime: Math.max(startTime, endedAt - done.durationMs) };
      const attributes = { 'codebox.status': done.status };
      boxTracer.startSpan('run', { ...runTime, attributes }, trace.setSpan(within, box)).end(endedAt);
    },
    end(failure) {
      const end = now();
      if (hasJoined) box.end(Math.min(end, endedAt ?? end));
      if (failure !== undefined) failSpan(call, failure);
      call.end(end);
    },
  };
};

/** A monotonic clock for the times of one call, so that changes of the system clock do not distort them. */
const startClock = () => {
  const startTime = Date.now();
  const offset = performance.now();
  return { startTime, now: () => startTime + performance.now() - offset };
};

const toTraceParent = ({ traceId, spanId, traceFlags }: SpanContext): string =>
  `00-${traceId}-${spanId}-${traceFlags.toString(16).padStart(2, '0')}`;

const statuses = new Set(['ok', 'error', 'timeout', 'interrupted', 'oom', 'killed', 'output_limit', 'lost']);

/** Reads the `done` event of a run as far as its span needs it; returns undefined for other events. */
const readDone = (value: unknown): { durationMs: number; status: string } | undefined => {
  if (typeof value !== 'object' || value === null || !('type' in value) || value.type !== 'done') return undefined;
  const durationMs = 'durationMs' in value && typeof value.durationMs === 'number' ? value.durationMs : 0;
  const status =
    'status' in value && typeof value.status === 'string' && statuses.has(value.status) ? value.status : 'other';
  return { durationMs: Math.max(0, durationMs), status };
};
