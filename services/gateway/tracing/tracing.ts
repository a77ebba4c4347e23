import { context, DiagLogLevel, diag, propagation, trace } from '@opentelemetry/api';
import { AsyncLocalStorageContextManager } from '@opentelemetry/context-async-hooks';
import { W3CTraceContextPropagator } from '@opentelemetry/core';
import {
  defaultResource,
  detectResources,
  resourceAttributesEnvDetector,
  resourceFromAttributes,
  serviceNameEnvDetector,
} from '@opentelemetry/resources';
import {
  AlwaysOffSampler,
  AlwaysOnSampler,
  BatchSpanProcessor,
  ParentBasedSampler,
  type Sampler,
  type SpanExporter,
  TraceIdRatioBasedSampler,
  TracerProvider,
} from '@opentelemetry/sdk-trace';
import { boxTracerName } from './box-call.ts';
import type { TracingSettings } from './settings.ts';

const serviceName = 'codebox-gateway';
const boxServiceName = 'codebox-box';
/** How long the final export may take: an unreachable collector must not keep a gateway from stopping. */
const flushMs = 3000;

/**
 * Starts to record traces and to export them by OTLP over HTTP. This module loads the SDK, so import it only when tracing is on. Warnings
 * of the SDK are passed to `warn`. Resolves with a function that stops tracing: remaining spans are exported, for 3 s at most.
 */
export const startTracing = async (
  settings: TracingSettings,
  warn: (text: string) => void,
): Promise<() => Promise<void>> => {
  const log = (text: string) => warn(`OpenTelemetry: ${text}`);
  diag.setLogger({ error: log, warn: log, info: log, debug: log, verbose: log }, DiagLogLevel.WARN);
  const exporter = await createExporter(settings.protocol);
  const processor = new BatchSpanProcessor({ exporter, scheduledDelayMillis: settings.delayMs });
  const sampler = createSampler(settings);
  const detected = detectResources({ detectors: [resourceAttributesEnvDetector, serviceNameEnvDetector] });
  const named = (name: string) => defaultResource().merge(resourceFromAttributes({ 'service.name': name }));
  const provider = (resource: ReturnType<typeof named>) =>
    new TracerProvider({ resource, sampler, spanProcessors: [processor] });
  const own = provider(named(serviceName).merge(detected));
  // Work inside boxes is recorded as another service, whose spans the gateway exports.
  const boxes = provider(
    named(serviceName)
      .merge(detected)
      .merge(resourceFromAttributes({ 'service.name': boxServiceName })),
  );
  context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable());
  propagation.setGlobalPropagator(new W3CTraceContextPropagator());
  trace.setGlobalTracerProvider({
    getTracer: (name, ...more) => (name === boxTracerName ? boxes : own).getTracer(name, ...more),
  });

  return async () => {
    const deadline = new Promise<void>((resolve) => setTimeout(resolve, flushMs).unref());
    await Promise.race([own.shutdown().catch(() => {}), deadline]);
    trace.disable();
    context.disable();
    propagation.disable();
    diag.disable();
  };
};

const createExporter = async (protocol: TracingSettings['protocol']): Promise<SpanExporter> => {
  const { OTLPTraceExporter } =
    protocol === 'http/json'
      ? await import('@opentelemetry/exporter-trace-otlp-http')
      : await import('@opentelemetry/exporter-trace-otlp-proto');
  return new OTLPTraceExporter();
};

const createSampler = ({ sampler, ratio }: TracingSettings): Sampler => {
  const root = sampler.endsWith('always_on')
    ? new AlwaysOnSampler()
    : sampler.endsWith('always_off')
      ? new AlwaysOffSampler()
      : new TraceIdRatioBasedSampler(ratio);
  return sampler.startsWith('parentbased') ? new ParentBasedSampler({ root }) : root;
};
