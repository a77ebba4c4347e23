import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { json } from 'node:stream/consumers';
import { z } from 'zod';

const attributeSchema = z.object({
  key: z.string(),
  value: z.object({ stringValue: z.string().optional(), intValue: z.coerce.number().optional() }),
});
const spanSchema = z.object({
  traceId: z.string().regex(/^[0-9a-f]{32}$/),
  spanId: z.string().regex(/^[0-9a-f]{16}$/),
  parentSpanId: z.string().optional(),
  name: z.string(),
  kind: z.int(),
  startTimeUnixNano: z.coerce.bigint(),
  endTimeUnixNano: z.coerce.bigint(),
  attributes: z.array(attributeSchema),
  status: z.object({ code: z.int().optional() }),
});
/** An OTLP export request, in JSON. */
const requestSchema = z.object({
  resourceSpans: z.array(
    z.object({
      resource: z.object({ attributes: z.array(attributeSchema) }),
      scopeSpans: z.array(z.object({ spans: z.array(spanSchema) })),
    }),
  ),
});

interface ReceivedSpan {
  service: string;
  traceId: string;
  id: string;
  parent: string | undefined;
  name: string;
  /** By OTLP, 2 is a server span and 3 a client span. */
  kind: number;
  start: bigint;
  end: bigint;
  attributes: Record<string, string | number | undefined>;
  failed: boolean;
}

/** Starts a collector that receives OTLP over HTTP in JSON. */
export const startOtlpReceiver = async () => {
  const spans: ReceivedSpan[] = [];
  const server = createServer((request, response) => {
    void json(request).then((body) => {
      spans.push(...requestSchema.parse(body).resourceSpans.flatMap(toSpans));
      response.setHeader('content-type', 'application/json').end('{}');
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    spans,
    [Symbol.asyncDispose]: async () => {
      server.closeAllConnections();
      server.close();
      await once(server, 'close');
    },
  };
};

type ResourceSpans = z.infer<typeof requestSchema>['resourceSpans'][number];

const toSpans = ({ resource, scopeSpans }: ResourceSpans): ReceivedSpan[] =>
  scopeSpans
    .flatMap(({ spans }) => spans)
    .map((span) => ({
      service: String(toRecord(resource.attributes)['service.name']),
      traceId: span.traceId,
      id: span.spanId,
      parent: span.parentSpanId,
      name: span.name,
      kind: span.kind,
      start: span.startTimeUnixNano,
      end: span.endTimeUnixNano,
      attributes: toRecord(span.attributes),
      failed: span.status.code === 2,
    }));

const toRecord = (attributes: z.infer<typeof attributeSchema>[]) =>
  Object.fromEntries(attributes.map(({ key, value }) => [key, value.stringValue ?? value.intValue]));
