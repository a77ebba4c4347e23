import { z } from 'zod';
import { CodeBoxError, pageQuerySchema, type Template, templatePageSchema, templateSchema } from '#contract';
import type { Lifecycle } from '../../boxes/life/lifecycle.ts';
import type { Template as TemplateRow } from '../../boxes/supply/templates.ts';
import type { Endpoints } from '../endpoint.ts';

const tag = 'Templates';

/** `/v1/templates`. */
export const addTemplateRoutes = ({ add }: Endpoints, lifecycle: Lifecycle): void => {
  add(
    {
      method: 'get',
      path: '/v1/templates',
      scope: 'boxes:read',
      summary: 'What boxes can be made from',
      tag,
      query: pageQuerySchema,
      responses: { 200: { description: 'All templates.', schema: templatePageSchema } },
    },
    async ({ c }) => c.json({ items: lifecycle.templates().map(toTemplate), nextCursor: null }),
  );

  add(
    {
      method: 'get',
      path: '/v1/templates/{template}',
      scope: 'boxes:read',
      summary: 'Read a template',
      tag,
      params: z.strictObject({ template: z.string() }),
      responses: { 200: { description: 'The template.', schema: templateSchema } },
    },
    async ({ c, params }) => {
      const template = lifecycle.templates().find(({ name }) => name === params.template);
      if (!template) throw new CodeBoxError('not_found', 'There is no such template.');
      return c.json(toTemplate(template));
    },
  );
};

/** Field by field: an image is the operator's own affair. */
const toTemplate = (template: TemplateRow): Template => ({
  name: template.name,
  languages: template.languages,
  limits: template.limits,
  maxLimits: template.maxLimits,
  network: template.network,
  idleSeconds: template.idleSeconds,
  maxLifetimeSeconds: template.maxLifetimeSeconds,
  warm: template.warm,
});
