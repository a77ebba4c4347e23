import { type Attributes, context, type Span, SpanKind, SpanStatusCode, trace } from '@opentelemetry/api';
import { CodeBoxError } from '#contract';

/** The name and the attributes of a span: never code, file contents, keys or parameters. */
export interface SpanOptions {
  name: string;
  kind?: SpanKind;
  attributes?: Attributes;
}

const tracer = trace.getTracer('codebox-gateway');

/**
 * Runs a task within a span when a trace is being recorded; otherwise runs it alone, without calling `describe`. So untraced work costs
 * nothing, and work that outlives its request adds nothing to the trace.
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

/** Marks a span as failed, with the code of its error but not the message, which may quote input of the caller. */
export const failSpan = (span: Span, code: string): void => {
  span.setAttribute('error.type', code);
  span.setStatus({ code: SpanStatusCode.ERROR });
};

/** Returns the ids of the current trace and span, for log lines. */
export const traceFields = (): Record<string, string> => {
  const found = trace.getActiveSpan()?.spanContext();
  return found ? { trace_id: found.traceId, span_id: found.spanId } : {};
};
