import { OpenApiGeneratorV31 } from '@asteasolutions/zod-to-openapi';
import { chartSchema, problemSchema } from '#contract';
import { withTexts } from '../../http/endpoints/operation-texts.ts';
import type { Endpoints } from './endpoint.ts';
import { boxTexts } from './texts/boxes.ts';
import { pathParameters } from './texts/examples.ts';
import { fileTexts } from './texts/files.ts';
import { runTexts } from './texts/runs.ts';
import { templateTexts } from './texts/templates.ts';
import { tenantTexts } from './texts/tenants.ts';
import { volumeTexts } from './texts/volumes.ts';
import { webhookTexts } from './texts/webhooks.ts';

const texts = {
  ...boxTexts,
  ...templateTexts,
  ...runTexts,
  ...fileTexts,
  ...tenantTexts,
  ...volumeTexts,
  ...webhookTexts,
};

/** The OpenAPI 3.1 document of all endpoints. */
export const openApiDocument = ({ registry }: Endpoints) => {
  const auth = registry.registerComponent('securitySchemes', 'apiKey', { type: 'http', scheme: 'bearer' });
  const header = registry.registerComponent('securitySchemes', 'apiKeyHeader', {
    type: 'apiKey',
    in: 'header',
    name: 'X-API-Key',
  });
  registry.registerComponent('securitySchemes', 'adminKey', {
    type: 'http',
    scheme: 'bearer',
    description: "The operator's key, CODEBOX_ADMIN_KEY.",
  });
  // No response schema refers to these: charts are in MIME bundles, whose values may be anything that code displays, and problems are in
  // a response that all operations share.
  const schemas = [chartSchema, problemSchema].map((schema) => ({ type: 'schema' as const, schema }));
  const document = new OpenApiGeneratorV31([...registry.definitions, ...schemas]).generateDocument({
    openapi: '3.1.0',
    info: {
      title: 'CodeBox',
      version: '1',
      description: 'A computer for every user of your app: isolated boxes with live kernels, files and a shell.',
      license: { name: 'MIT', identifier: 'MIT' },
    },
    servers: [{ url: '/' }],
    security: [{ [auth.name]: [] }, { [header.name]: [] }],
  });
  return withTexts(document, texts, pathParameters);
};
