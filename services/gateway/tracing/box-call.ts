import { context, type SpanContext, SpanKind, trace } from '@opentelemetry/api';
import { failSpan } from './span.ts';

/** The tracer of what happens in boxes: its spans belong to a service of their own. */
export const boxTracerName = 'codebox-box';

const tracer = trace.getTracer('codebox-gateway');
const boxTracer = trace.getTracer(boxTracerName);

/**
 * A call of a box within a trace. The box has no network, so its side is a span that the gateway makes and sends for it: the box
 * says in its answer which span it has worked under and for how long. What it says is not trusted: the span is told only when the
 * box has named it, and never reaches beyond the call.
 */
export interface BoxCall {
  /** To be sent with the request. */
  headers: Record<string, string>;
  /** The head of the answer is there. */
  answered(status: number, headers: Record<string, string | string[] | undefined>): void;
  /** An event of the answer has come. */
  event(value: unknown): void;
  /** The call is over. */
  end(failure?: string): void;
}

/** Begins to trace a call; undefined where no trace is being taken. `path` comes behind `/codebox/`. */
export const startBoxCall = (method: string, path: string): BoxCall | undefined => {
  if (!trace.getActiveSpan()?.isRecording()) return undefined;
  // The first part names the call; what follows are ids and paths of files.
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
    answered(status, headers) {
      call.setAttribute('http.response.status_code', status);
      hasJoined = headers.traceresponse === parent;
      const tookMs = /^box;dur=(\d{1,12}(?:\.\d{1,6})?)$/.exec(String(headers['server-timing'] ?? ''))?.[1];
      if (tookMs !== undefined) endedAt = startTime + Number(tookMs);
    },
    event(value) {
      const done = readDone(value);
      if (!done || !hasJoined || hasRun) return;
      hasRun = true;
      // The end of a stream is the end of what it tells of, not the head of its answer.
      endedAt = now();
      const runTime = { startTime: Math.max(startTime, endedAt - done.durationMs) };
      const attributes = { 'codebox.status': done.status };
      boxTracer.startSpan('run', { ...runTime, attributes }, trace.setSpan(within, box)).end(endedAt);
    },
    end(failure) {
      const over = now();
      if (hasJoined) box.end(Math.min(over, endedAt ?? over));
      if (failure !== undefined) failSpan(call, failure);
      call.end(over);
    },
  };
};

/** Times of one call, which fit each other whatever is done to the clock meanwhile. */
const startClock = () => {
  const startTime = Date.now();
  const begun = performance.now();
  return { startTime, now: () => startTime + performance.now() - begun };
};

const toTraceParent = ({ traceId, spanId, traceFlags }: SpanContext): string =>
  `00-${traceId}-${spanId}-${traceFlags.toString(16).padStart(2, '0')}`;

const statuses = new Set(['ok', 'error', 'timeout', 'interrupted', 'oom', 'killed', 'output_limit', 'lost']);

/** The last event of a run, as far as a span tells of it; undefined for any other. */
const readDone = (value: unknown): { durationMs: number; status: string } | undefined => {
  if (typeof value !== 'object' || value === null || !('type' in value) || value.type !== 'done') return undefined;
  const durationMs = 'durationMs' in value && typeof value.durationMs === 'number' ? value.durationMs : 0;
  const status =
    'status' in value && typeof value.status === 'string' && statuses.has(value.status) ? value.status : 'other';
  return { durationMs: Math.max(0, durationMs), status };
};
