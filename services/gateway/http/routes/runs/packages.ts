import { installPackagesSchema, packagePageSchema, packageQuerySchema } from '#contract';
import type { Packages } from '../../../boxes/runs/packages.ts';
import type { Endpoints } from '../../endpoint.ts';
import { boxParams } from '../boxes/boxes.ts';
import { type CommandResponses, startsCommand } from './commands.ts';

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
      ...startsCommand(runs, {
        whole: 'The installer as a command, with the packages that it installed, or its events, by Accept.',
        detached: 'The installer runs; its events are at Location.',
      }),
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
