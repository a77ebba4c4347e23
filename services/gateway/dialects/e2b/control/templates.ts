import { z } from 'zod';
import { CodeBoxError } from '#contract';
import type { Template } from '../../../boxes/supply/templates.ts';
import type { RouteParts } from '../../../http/app.ts';
import type { Endpoints } from '../../../http/endpoint.ts';
import { toTemplate } from './marks.ts';
import { envdVersion } from './sandbox.ts';

/** Clients expect times and counts, which templates of a gateway do not have. */
const unknownTime = new Date(0).toISOString();

/** Whether every tenant has a template. */
const isPublic = ({ base }: Template): boolean => base === undefined;

const toListed = (template: Template) => {
  const { name, limits } = template;
  return {
    templateID: name,
    buildID: name,
    buildStatus: 'ready',
    names: [name],
    aliases: [name],
    public: isPublic(template),
    cpuCount: Math.ceil(limits.cpus),
    memoryMB: limits.memoryMb,
    diskSizeMB: limits.diskMb,
    envdVersion,
    createdAt: unknownTime,
    updatedAt: unknownTime,
    createdBy: null,
    lastSpawnedAt: null,
    spawnCount: 0,
    buildCount: 1,
  };
};

/** The templates of the gateway, and those that the tenant has built. */
export const addTemplateRoutes = ({ add }: Endpoints, { catalog }: Pick<RouteParts, 'catalog'>): void => {
  const described = { method: 'get', scope: 'boxes:read', tag: 'Templates', responses: {} } as const;
  for (const version of ['', '/v2'])
    add({ ...described, path: `${version}/templates`, summary: 'List templates' }, async ({ c, tenant }) =>
      c.json((await catalog.listOf(tenant)).map(toListed)),
    );

  add(
    {
      ...described,
      path: '/templates/aliases/{alias}',
      summary: 'Read whether there is a template',
      params: z.object({ alias: z.string() }),
    },
    async ({ c, tenant, params: { alias } }) => {
      const template = await catalog.find(tenant, toTemplate(alias));
      if (!template) throw new CodeBoxError('not_found', `There is no template ${alias}.`);
      return c.json({ templateID: template.name, public: isPublic(template) });
    },
  );
};
