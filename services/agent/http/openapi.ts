import { OpenApiGeneratorV31 } from '@asteasolutions/zod-to-openapi';
import { chartSchema, problemSchema } from '#contract';
import { withTexts } from '../../http/operation-texts.ts';
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
      'Of a browser without a key, where the agent is open: it is given one at its first request. By TLS its name is `__Host-codebox-visitor`.',
  });
  // No response takes these from its own schema: a chart is behind the chartUrl of a picture,
  // a problem is in a response that all operations share.
  const schemas = [chartSchema, problemSchema].map((schema) => ({ type: 'schema' as const, schema }));
  const document = new OpenApiGeneratorV31([...registry.definitions, ...schemas]).generateDocument({
    openapi: '3.1.0',
    info: {
      title: 'CodeBox agent',
      version: '1',
      description:
        'A code interpreter: chats whose answers are made by a language model that runs code in a box. `X-CodeBox-User` names the ' +
        "app's end user, `X-Model-Key` brings a key of the model's provider for one answer.",
      license: { name: 'MIT', identifier: 'MIT' },
    },
    servers: [{ url: '/' }],
  });
  return withTexts(document, { ...chatTexts, ...dialectTexts }, pathParameters);
};
