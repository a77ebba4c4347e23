import { z } from 'zod';
import type { EndpointSpec, Endpoints, Input } from '../../http/endpoint.ts';

interface Tool<P extends z.ZodType, Q extends z.ZodType, B extends z.ZodType>
  extends Pick<EndpointSpec<P, Q, B>, 'method' | 'path' | 'scope' | 'params' | 'query' | 'body' | 'bounds'> {
  /** The name by which models call it. */
  name: string;
  summary: string;
  description: string;
}

type NoInput = z.ZodObject<Record<string, never>>;
interface JsonSchema {
  properties?: Record<string, { description?: string }>;
  required?: string[];
}

const toJsonSchema = (schema: z.ZodType): JsonSchema =>
  z.toJSONSchema(schema, { io: 'input', unrepresentable: 'any' }) as JsonSchema;

const toParameters = (schema: z.ZodType | undefined, place: 'path' | 'query') => {
  const { properties = {}, required = [] } = schema ? toJsonSchema(schema) : {};
  return Object.entries(properties).map(([name, { description, ...own }]) => ({
    name,
    in: place,
    required: required.includes(name),
    ...(description !== undefined && { description }),
    schema: own,
  }));
};

/** The calls that Open WebUI offers to models: it reads them from an OpenAPI document. */
export const createTools = ({ add }: Endpoints) => {
  const paths: Record<string, Record<string, object>> = {};

  return {
    add<P extends z.ZodType = NoInput, Q extends z.ZodType = NoInput, B extends z.ZodType = NoInput>(
      { name, description, ...spec }: Tool<P, Q, B>,
      handler: (input: Input<z.output<P>, z.output<Q>, z.output<B>>) => Response | Promise<Response>,
    ): void {
      add<P, Q, B>({ ...spec, tag: 'Open Terminal', responses: {} }, handler);
      const path = spec.path.replace(/^\/openterminal/, '');
      paths[path] = {
        ...paths[path],
        [spec.method]: {
          operationId: name,
          summary: spec.summary,
          description,
          parameters: [...toParameters(spec.params, 'path'), ...toParameters(spec.query, 'query')],
          ...(spec.body && {
            requestBody: { required: true, content: { 'application/json': { schema: toJsonSchema(spec.body) } } },
          }),
          responses: { 200: { description: 'It was done.' } },
        },
      };
    },

    document: () => ({ openapi: '3.1.0', info: { title: 'Open Terminal', version: '0.14.5' }, paths }),
  };
};

export type Tools = ReturnType<typeof createTools>;
