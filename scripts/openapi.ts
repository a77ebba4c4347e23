import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { stringify } from 'yaml';
import { type RouteParts as AgentParts, addRoutes as addAgentRoutes } from '../services/agent/http/app.ts';
import { createEndpoints as createAgentEndpoints } from '../services/agent/http/endpoints.ts';
import { openApiDocument as agentDocument } from '../services/agent/http/openapi.ts';
import { addRoutes, type RouteParts } from '../services/gateway/http/app.ts';
import { createEndpoints } from '../services/gateway/http/endpoint.ts';
import type { KeyClaims } from '../services/gateway/http/idempotency/key-claims.ts';
import { openApiDocument } from '../services/gateway/http/openapi.ts';
import { problemsMarkdown } from '../services/http/problems/pages.ts';
import { decisionsPage } from './decisions-page.ts';
import { imagePage } from './image-page.ts';

const toYaml = (document: object): string => stringify(document, { lineWidth: 0, aliasDuplicateObjects: false });

// Routes use their parts only to serve a request, and no request is served here.
const describeGateway = () => {
  const endpoints = createEndpoints({ claims: {} as KeyClaims });
  addRoutes(endpoints, {} as RouteParts);
  return openApiDocument(endpoints);
};
const describeAgent = () => {
  const endpoints = createAgentEndpoints();
  addAgentRoutes(endpoints, {} as AgentParts);
  return agentDocument(endpoints);
};

/** Generates the OpenAPI document of each service from its routes, by file name. */
export const openApiFiles = {
  'openapi.yaml': () => toYaml(describeGateway()),
  'openapi.agent.yaml': () => toYaml(describeAgent()),
};

/** Every generated file, by name. */
export const writtenFiles = {
  ...openApiFiles,
  'docs/errors.md': problemsMarkdown,
  'docs/image.md': imagePage,
  'docs/decisions/README.md': decisionsPage,
};

if (import.meta.main) {
  for (const [name, describe] of Object.entries(writtenFiles)) {
    const file = join(import.meta.dirname, '..', name);
    await writeFile(file, describe());
    process.stdout.write(`wrote ${file}\n`);
  }
}
