import { z } from 'zod';

/** OpenTelemetry variables that the gateway reads itself; the exporter reads those for its endpoint, headers and timeout. */
export const tracingVariables = {
  OTEL_SDK_DISABLED: z.string().toLowerCase().default('false'),
  OTEL_TRACES_EXPORTER: z.enum(['otlp', 'none']).optional(),
  OTEL_EXPORTER_OTLP_ENDPOINT: z.url().optional(),
  OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: z.url().optional(),
  OTEL_EXPORTER_OTLP_PROTOCOL: z.enum(['http/protobuf', 'http/json']).default('http/protobuf'),
  OTEL_EXPORTER_OTLP_TRACES_PROTOCOL: z.enum(['http/protobuf', 'http/json']).optional(),
  OTEL_TRACES_SAMPLER: z
    .enum([
      'always_on',
      'always_off',
      'traceidratio',
      'parentbased_always_on',
      'parentbased_always_off',
      'parentbased_traceidratio',
    ])
    .default('parentbased_always_on'),
  OTEL_TRACES_SAMPLER_ARG: z.coerce.number().min(0).max(1).default(1),
  OTEL_BSP_SCHEDULE_DELAY: z.coerce.number().int().min(1).max(600_000).default(5000),
};

type Variables = z.infer<z.ZodObject<typeof tracingVariables>>;

/** How traces are sampled and exported. */
export interface TracingSettings {
  protocol: 'http/protobuf' | 'http/json';
  sampler: Variables['OTEL_TRACES_SAMPLER'];
  /** The share of traces that ratio samplers record. */
  ratio: number;
  /** How long spans are batched before they are exported. */
  delayMs: number;
}

/** Returns undefined unless the variables name an exporter or endpoint and do not disable tracing. */
export const toTracingSettings = (variables: Variables): TracingSettings | undefined => {
  const { OTEL_EXPORTER_OTLP_ENDPOINT: all, OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: own } = variables;
  const exporter = variables.OTEL_TRACES_EXPORTER ?? (all === undefined && own === undefined ? 'none' : 'otlp');
  if (exporter === 'none' || variables.OTEL_SDK_DISABLED === 'true') return undefined;
  return {
    protocol: variables.OTEL_EXPORTER_OTLP_TRACES_PROTOCOL ?? variables.OTEL_EXPORTER_OTLP_PROTOCOL,
    sampler: variables.OTEL_TRACES_SAMPLER,
    ratio: variables.OTEL_TRACES_SAMPLER_ARG,
    delayMs: variables.OTEL_BSP_SCHEDULE_DELAY,
  };
};
