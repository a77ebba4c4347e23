import { commandSummarySchema, installPackagesSchema, packagePageSchema, packageQuerySchema } from '#contract';
import type { Packages } from '../../boxes/runs/packages.ts';
import type { Endpoints } from '../endpoint.ts';
import { boxParams } from './boxes.ts';
import { type CommandAnswers, commandTypes } from './commands.ts';

const tag = 'Packages';
const path = '/v1/boxes/{box}/packages';

/** `/v1/boxes/{box}/packages`: what is installed, and installing more. */
export const addPackageRoutes = ({ add }: Endpoints, packages: Packages, answers: CommandAnswers): void => {
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
        replay: ({ c, tenant, body }, location) => answers.replay(c, answers.placeOf(tenant, location), body.detach),
        keepsAnswer: true,
      },
      responses: {
        200: {
          description: 'The installer as a command, with what it installed; or its events by Accept.',
          types: commandTypes,
        },
        202: { description: 'It runs; its events are at Location.', schema: commandSummarySchema },
      },
    },
    ({ c, tenant, params, body }) => {
      const ref = { tenant, box: params.box };
      return answers.start(c, ref, (leave, onAccepted) => packages.install(ref, body, leave, onAccepted));
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
        200: { description: "A page of packages, the image's and those installed since.", schema: packagePageSchema },
      },
    },
    async ({ c, tenant, params, query }) => c.json(await packages.list({ tenant, box: params.box }, query)),
  );
};
