import { createRunSchema, runCodeQuerySchema, runSchema } from '#contract';
import { largeJson } from '../../../../json/json-bounds.ts';
import type { RunOnce } from '../../../boxes/runs/run.ts';
import type { Endpoints } from '../../endpoint.ts';

/** `/v1/run`: one run without a lasting box. */
export const addRunRoute = ({ add }: Endpoints, run: RunOnce): void => {
  add(
    {
      method: 'post',
      path: '/v1/run',
      scope: 'run',
      summary: 'Run code once, in a new box that is destroyed afterwards',
      tag: 'Run',
      body: createRunSchema,
      codeQuery: runCodeQuerySchema,
      bounds: largeJson,
      idempotent: true,
      responses: { 200: { description: 'The outputs and the changed files.', schema: runSchema } },
    },
    async ({ c, tenant, body }) => c.json(await run(tenant, body, () => c.get('progress')?.hasStarted())),
  );
};
