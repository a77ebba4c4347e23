import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { stringify } from 'yaml';
import { addRoutes, type RouteParts } from '../services/gateway/http/app.ts';
import { createEndpoints } from '../services/gateway/http/endpoint.ts';
import type { KeyClaims } from '../services/gateway/http/key-claims.ts';
import { openApiDocument } from '../services/gateway/http/openapi.ts';

/** `openapi.yaml` as the routes describe themselves. */
export const openApiYaml = (): string => {
  // Routes use their parts only when a request comes, and none comes here.
  const endpoints = createEndpoints({} as KeyClaims);
  addRoutes(endpoints, {} as RouteParts);
  return stringify(openApiDocument(endpoints), { lineWidth: 0, aliasDuplicateObjects: false });
};

if (import.meta.main) {
  const file = join(import.meta.dirname, '..', 'openapi.yaml');
  await writeFile(file, openApiYaml());
  process.stdout.write(`wrote ${file}\n`);
}
