import { z } from 'zod';
import { CodeBoxError, pageQuerySchema, type Template, templateDetailSchema, templatePageSchema } from '#contract';
import type { Catalog } from '../../../boxes/supply/catalog.ts';
import type { Template as TemplateRow } from '../../../boxes/supply/templates.ts';
import type { Endpoints } from '../../endpoint.ts';

const tag = 'Templates';

/** `/v1/templates`. */
export const addTemplateRoutes = ({ add }: Endpoints, catalog: Catalog): void => {
  /** Converts a template to JSON field by field, without its image, which concerns only the operator. */
  const toTemplate = async (template: TemplateRow): Promise<Template> => ({
    name: template.name,
    language: template.language,
    languages: (await catalog.languagesOf(template)) ?? null,
    limits: template.limits,
    maxLimits: template.maxLimits,
    network: template.network,
    idleSeconds: template.idleSeconds,
    maxLifetimeSeconds: template.maxLifetimeSeconds,
    warm: template.warm,
    gpus: template.gpus ?? null,
    version: template.version ?? null,
  });

  add(
    {
      method: 'get',
      path: '/v1/templates',
      scope: 'boxes:read',
      summary: 'List the templates of boxes',
      tag,
      query: pageQuerySchema,
      responses: { 200: { description: 'All templates.', schema: templatePageSchema } },
    },
    async ({ c, tenant }) =>
      c.json({ items: await Promise.all((await catalog.listOf(tenant)).map(toTemplate)), nextCursor: null }),
  );

  add(
    {
      method: 'get',
      path: '/v1/templates/{template}',
      scope: 'boxes:read',
      summary: 'Read a template',
      tag,
      params: z.strictObject({ template: z.string() }),
      responses: { 200: { description: 'The template, with what its image contains.', schema: templateDetailSchema } },
    },
    async ({ c, tenant, params }) => {
      const template = await catalog.find(tenant, params.template);
      if (!template) throw new CodeBoxError('not_found', 'There is no such template.');
      const { packages = null, programs = null } = (await catalog.contentsOf(template)) ?? {};
      return c.json({ ...(await toTemplate(template)), packages, programs });
    },
  );
};
