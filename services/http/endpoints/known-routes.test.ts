import { expect, test } from 'vitest';
import { createKnownRoutes } from './known-routes.ts';

const routes = createKnownRoutes();
for (const [method, path] of [
  ['post', '/v1/run'],
  ['post', '/v1/boxes'],
  ['get', '/v1/boxes'],
  ['get', '/v1/boxes/{box}'],
  ['delete', '/v1/boxes/{box}'],
  ['post', '/v1/boxes/{box}/pause'],
  ['post', '/v1/boxes/{box}/executions'],
  ['get', '/v1/boxes/{box}/executions'],
  ['get', '/v1/boxes/{box}/executions/{execution}'],
  ['get', '/v1/boxes/{box}/executions/{execution}/events'],
  ['post', '/v1/boxes/{box}/executions/{execution}/interrupt'],
  ['post', '/v1/boxes/{box}/commands'],
  ['post', '/v1/boxes/{box}/packages'],
  ['get', '/v1/boxes/{box}/packages'],
  ['post', '/v1/boxes/{box}/files'],
  ['get', '/v1/boxes/{box}/files:search'],
  ['put', '/v1/boxes/{box}/files/{path}'],
  ['get', '/v1/boxes/{box}/files/{path}'],
  ['get', '/healthz'],
] as const)
  routes.add(method, path);

test.each([
  ['POST', '/boxes', 'POST /v1/boxes'],
  ['POST', '/v1/boxes/', 'POST /v1/boxes'],
  ['PUT', '/v1/boxes/', 'POST or GET /v1/boxes'],
  ['POST', '//v1//boxes', 'POST /v1/boxes'],
  ['POST', '/api/v1/boxes', 'POST /v1/boxes'],
  ['POST', '/v2/boxes', 'POST /v1/boxes'],
  ['POST', '/v1/box', 'POST /v1/boxes'],
  ['POST', '/v1/sandboxes', 'POST /v1/boxes'],
  ['POST', '/run', 'POST /v1/run'],
  ['GET', '/health', 'GET /healthz'],
  ['POST', '/v1/boxes/box-abc/execute', 'POST /v1/boxes/box-abc/executions'],
  ['POST', '/boxes/box-abc/exec', 'POST /v1/boxes/box-abc/executions'],
  ['POST', '/v1/boxes/box-abc/packages/install', 'POST /v1/boxes/box-abc/packages'],
  ['POST', '/v1/boxes/box-abc/command', 'POST /v1/boxes/box-abc/commands'],
  ['GET', '/v1/boxes/box-abc/execution/exe-1', 'GET /v1/boxes/box-abc/executions/exe-1'],
  ['POST', '/v1/boxes/box-abc/executions/exe-1/stop', 'POST /v1/boxes/box-abc/executions/exe-1/interrupt'],
  ['PUT', '/v1/boxes/box-abc/upload/a/b.csv', 'PUT /v1/boxes/box-abc/files/{path}'],
  ['GET', '/v1/boxes/<script>/execution', 'GET /v1/boxes/{box}/executions'],
  ['GET', '/favicon.ico', undefined],
  ['GET', '/', undefined],
  ['GET', `/v1/${'boxes/'.repeat(50)}`, undefined],
  ['GET', `/${'x'.repeat(5000)}`, undefined],
])('%s %.60s probably means %s', (method, path, meant) => {
  expect(routes.nearestTo(method, path)).toBe(meant);
});

test('finding the nearest route is cheap for any path', () => {
  for (let count = 0; count < 60; count++) routes.add('get', `/v1/boxes/{box}/other-things-${count}/{id}/events`);
  const hostile = [`/v1/boxes/${'b'.repeat(64)}/${'o'.repeat(63)}/x/events`, `/${'v1/'.repeat(12)}`, '/'.repeat(512)];
  const { user } = process.cpuUsage();
  for (let round = 0; round < 100; round++) for (const path of hostile) routes.nearestTo('GET', path);
  // 300 lookups at 5 ms each: far more than a slow machine takes.
  expect(process.cpuUsage().user - user).toBeLessThan(1_500_000);
});
