import type { OperationTexts } from '../../../http/endpoints/operation-texts.ts';
import { at, pageOf } from './examples.ts';

const version = {
  template: 'data',
  version: 3,
  state: 'ready',
  cause: null,
  sizeBytes: 83_886_080,
  createdAt: at,
  finishedAt: at,
};
const building = { ...version, state: 'building', sizeBytes: null, finishedAt: null };

/** Descriptions and examples of the operations on templates that tenants build. */
export const templateTexts: OperationTexts = {
  'PUT /v1/templates/{template}': {
    description:
      'The build runs in a box of the tenant, with the limits of the template, and its saved files become the next version. Boxes that ' +
      'exist keep the version that they were created from. A key also needs the scope `run`, and `files` for files.',
    request: {
      from: { template: 'python' },
      packages: { pip: ['polars'] },
      commands: ['mkdir -p reports'],
      buildNetwork: 'internet',
      warm: 2,
    },
    response: building,
  },
  'DELETE /v1/templates/{template}': {
    description: 'Its warm instances and its stored files are deleted soon after. A build of it ends.',
  },
  'GET /v1/templates/{template}/versions': {
    description: 'The last 20 versions are kept, with their logs.',
    response: pageOf(version),
  },
  'GET /v1/templates/{template}/versions/{version}': {
    description: '`cause` says why a build failed; its log says more.',
    response: { ...version, state: 'failed', cause: 'pip install failed (error, exit code 1)', sizeBytes: null },
  },
  'GET /v1/templates/{template}/versions/{version}/log': {
    description:
      'A `step` is what is done next, `output` what it prints, and `done` the end of the build. The log has 1 MiB of output at most.',
    response: pageOf({ seq: 1, type: 'step', text: 'pip install polars' }),
  },
};
