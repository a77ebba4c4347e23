import { Readable } from 'node:stream';
import { pino } from 'pino';
import { expect, test } from 'vitest';
import { createEndpoints } from '../../endpoint.ts';
import { addNotebookRoutes } from './notebooks.ts';

test('HEAD leaves no notebook open', async () => {
  const endpoints = createEndpoints({
    claims: {} as never,
    admit(c) {
      c.set('tenant', 'tenant');
      c.set('scopes', null);
      c.set('log', pino({ level: 'silent' }));
    },
  });
  const body = Readable.from(['{}']);
  addNotebookRoutes(endpoints, { export: async () => body } as never, {} as never);
  const response = await endpoints.app.request('/v1/boxes/box/notebook', { method: 'HEAD' });
  expect([response.status, response.headers.get('content-type')]).toEqual([200, 'application/x-ipynb+json']);
  expect(body.destroyed).toBe(true);
});
