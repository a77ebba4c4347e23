import { OpenApiGeneratorV31 } from '@asteasolutions/zod-to-openapi';
import { chartSchema, problemSchema } from '#contract';
import { withTexts } from '../../http/endpoints/operation-texts.ts';
import type { Endpoints } from './endpoints.ts';
import { chatTexts } from './texts/chats.ts';
import { dialectTexts } from './texts/dialects.ts';
import { pathParameters } from './texts/examples.ts';

/** The OpenAPI 3.1 document of all endpoints. */
export const openApiDocument = ({ registry }: Endpoints) => {
  const bearer = { type: 'http', scheme: 'bearer', description: 'An API key of the gateway.' } as const;
  registry.registerComponent('securitySchemes', 'apiKey', bearer);
  registry.registerComponent('securitySchemes', 'apiKeyHeader', { type: 'apiKey', in: 'header', name: 'X-API-Key' });
  registry.registerComponent('securitySchemes', 'visitor', {
    type: 'apiKey',
    in: 'cookie',
    name: 'codebox-visitor',
    description:
      'The cookie of a browser without a key, where the agent is open: it is set with the first response. Over TLS its name is `__Host-codebox-visitor`.',
  });
  // No response refers to these: a chart is the document at the chartUrl of a picture, and
  // a problem is part of a response that all operations share.
  const schemas = [chartSchema, problemSchema].map((schema) => ({ type: 'schema' as const, schema }));
  const document = new OpenApiGeneratorV31([...registry.definitions, ...schemas]).generateDocument({
    openapi: '3.1.0',
    info: {
      title: 'CodeBox agent',
      version: '1',
      description:
        'A code interpreter: chats in which a language model answers and runs code in a box. `X-CodeBox-User` names the ' +
        "app's end user, `X-Model-Key` carries a key of the model's provider for one answer.",
      license: { name: 'MIT', identifier: 'MIT' },
    },
    servers: [{ url: '/' }],
  });
  return withTexts(document, { ...chatTexts, ...dialectTexts }, pathParameters);
};
