import { type Attributes, context, type Span, SpanKind, SpanStatusCode, trace } from '@opentelemetry/api';
import { CodeBoxError } from '#contract';

/** What a span is called and says of itself: never code, file contents, keys or parameters. */
export interface SpanOptions {
  name: string;
  kind?: SpanKind;
  attributes?: Attributes;
}

const tracer = trace.getTracer('codebox-gateway');

/**
 * Within a trace that is being recorded, does a task as a span of it; else just does it, and `describe` is not asked. So what
 * nobody traces costs nothing, and what outlives its request adds nothing to its trace.
 */
export const inSpan = <T>(describe: () => SpanOptions, task: () => Promise<T>): Promise<T> => {
  if (!trace.getActiveSpan()?.isRecording()) return task();
  const { name, kind = SpanKind.INTERNAL, attributes = {} } = describe();
  const span = tracer.startSpan(name, { kind, attributes });
  return context.with(trace.setSpan(context.active(), span), async () => {
    try {
      return await task();
    } catch (error) {
      failSpan(span, error instanceof CodeBoxError ? error.code : 'internal');
      throw error;
    } finally {
      span.end();
    }
  });
};

/** Marks a span as failed, by the code of its error: the text of one may hold what a caller has sent. */
export const failSpan = (span: Span, code: string): void => {
  span.setAttribute('error.type', code);
  span.setStatus({ code: SpanStatusCode.ERROR });
};

/** The trace of what is being done, for its log lines. */
export const traceFields = (): Record<string, string> => {
  const found = trace.getActiveSpan()?.spanContext();
  return found ? { trace_id: found.traceId, span_id: found.spanId } : {};
};
