import { context, propagation, SpanKind, trace } from '@opentelemetry/api';
import type { Context, MiddlewareHandler } from 'hono';
import { asCodeBoxError } from '../../../http/problems/problem.ts';
import { isProbe } from '../../../http/server/probe.ts';
import { sentStatus } from '../../../http/server/status.ts';
import { failSpan } from '../../tracing/span.ts';
import type { Env } from '../env.ts';

const tracer = trace.getTracer('codebox-gateway');
const headersOf = {
  get: (c: Context<Env>, name: string) => c.req.header(name),
  keys: (c: Context<Env>) => Object.keys(c.req.header()),
};

/** Records each request as a span that continues the trace of its caller (`traceparent`). Probes are not recorded. */
export const traceRequests = (): MiddlewareHandler<Env> => async (c, next) => {
  if (isProbe(c.req.path)) return await next();
  const { method } = c.req;
  const from = propagation.extract(context.active(), c, headersOf);
  const span = tracer.startSpan(method, { kind: SpanKind.SERVER, attributes: { 'http.request.method': method } }, from);
  await context.with(trace.setSpan(from, span), next);
  const route = c.get('route');
  const status = sentStatus(c);
  if (route !== undefined) span.updateName(`${method} ${route}`);
  span.setAttributes({
    'http.response.status_code': status,
    'codebox.request_id': c.get('requestId'),
    ...(route !== undefined && { 'http.route': route }),
    ...(c.get('tenant') !== undefined && { 'codebox.tenant': c.get('tenant') }),
  });
  if (status >= 500) failSpan(span, asCodeBoxError(c.error).code);
  const { outgoing } = c.env ?? {};
  // The body of a stream continues after its head is sent.
  if (c.get('isStream') && outgoing && !outgoing.destroyed) outgoing.once('close', () => span.end());
  else span.end();
};
