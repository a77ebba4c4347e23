import { modelListSchema } from '#contract';
import type { Catalog } from '../../models/catalog.ts';
import type { Endpoints } from '../endpoints.ts';

const listMs = 10_000;

/** `/v1/models`: the models that chats can use. */
export const addModelRoute = ({ add }: Endpoints, catalog: Pick<Catalog, 'list' | 'hint'>): void => {
  add(
    {
      method: 'get',
      path: '/v1/models',
      summary: 'List the models that can be chosen',
      tag: 'Models',
      responses: { 200: { description: 'All models, the default one first.', schema: modelListSchema } },
    },
    async ({ c }) => {
      const data = await catalog.list(AbortSignal.timeout(listMs));
      return c.json({ object: 'list', data, hint: catalog.hint() });
    },
  );
};
