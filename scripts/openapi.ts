import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { stringify } from 'yaml';
import { addRoutes, type RouteParts } from '../services/gateway/http/app.ts';
import { createEndpoints } from '../services/gateway/http/endpoint.ts';
import { openApiDocument } from '../services/gateway/http/openapi.ts';
import type { IdempotencyStore } from '../services/gateway/store/idempotency.ts';

/** `openapi.yaml` as the routes describe themselves. */
export const openApiYaml = (): string => {
  // Routes use their parts only when a request comes, and none comes here.
  const endpoints = createEndpoints({} as IdempotencyStore);
  addRoutes(endpoints, {} as RouteParts);
  return stringify(openApiDocument(endpoints), { lineWidth: 0, aliasDuplicateObjects: false });
};

if (import.meta.main) {
  const file = join(import.meta.dirname, '..', 'openapi.yaml');
  await writeFile(file, openApiYaml());
  process.stdout.write(`wrote ${file}\n`);
}
