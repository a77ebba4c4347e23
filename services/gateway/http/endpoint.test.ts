import { describe, expect, test } from 'vitest';
import { createEndpoints } from './endpoint.ts';
import type { KeyClaims } from './idempotency/key-claims.ts';

const route = { method: 'get', path: '/v1/planted', summary: 'Planted', tag: 'Planted', responses: {} } as const;

describe('a route', () => {
  test.each(['run', 'any', 'admin'] as const)(
    'without authentication in front of it refuses every request: %s',
    async (scope) => {
      const { app, add } = createEndpoints({ claims: {} as KeyClaims });
      add({ ...route, scope }, ({ c }) => c.text('open'));
      app.onError((error, c) => c.text(error.message, 401));
      expect((await app.request(route.path)).status).toBe(401);
    },
  );

  test('without a scope does not compile', () => {
    const { add } = createEndpoints({ claims: {} as KeyClaims });
    // @ts-expect-error: the route does not declare who may call it.
    add(route, ({ c }) => c.text('open'));
  });
});
