import { commandSummarySchema, installPackagesSchema, packagePageSchema, packageQuerySchema } from '#contract';
import type { Packages } from '../../../boxes/runs/packages.ts';
import type { Endpoints } from '../../endpoint.ts';
import { boxParams } from '../boxes/boxes.ts';
import { type CommandResponses, commandTypes } from './commands.ts';
import { detachedHeaders, startedHeaders } from './run-responses.ts';

const tag = 'Packages';
const path = '/v1/boxes/{box}/packages';

/** `/v1/boxes/{box}/packages`: list and install packages. */
export const addPackageRoutes = ({ add }: Endpoints, packages: Packages, runs: CommandResponses): void => {
  add(
    {
      method: 'post',
      path,
      scope: 'run',
      summary: 'Install packages with pip or npm; wait, stream or detach',
      tag,
      params: boxParams,
      body: installPackagesSchema,
      idempotent: {
        replay: ({ c, tenant, params: { box }, body }, { id }) =>
          runs.replay(c, { ref: { tenant, box }, id }, body.detach),
        storesResponse: true,
      },
      responses: {
        200: {
          description: 'The installer as a command, with the packages that it installed, or its events, by Accept.',
          headers: startedHeaders,
          types: commandTypes,
        },
        202: {
          description: 'The installer runs; its events are at Location.',
          headers: detachedHeaders,
          schema: commandSummarySchema,
        },
      },
    },
    ({ c, tenant, params, body }) => {
      const ref = { tenant, box: params.box };
      return runs.start(c, ref, (leave, onAccepted) => packages.install(ref, body, leave, onAccepted));
    },
  );

  add(
    {
      method: 'get',
      path,
      scope: 'boxes:read',
      summary: 'List installed packages by name',
      tag,
      params: boxParams,
      query: packageQuerySchema,
      responses: {
        200: {
          description: 'A page of packages: those of the image and those installed since.',
          schema: packagePageSchema,
        },
      },
    },
    async ({ c, tenant, params, query }) => c.json(await packages.list({ tenant, box: params.box }, query)),
  );
};
